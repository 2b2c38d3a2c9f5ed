"""The Secret that speakers share: the key of their heartbeats."""

from __future__ import annotations

import base64
import logging
import secrets
from collections.abc import Callable
from typing import Final

from bridgehead.balancer.heartbeat_key import KEY, SECRET_NAME
from bridgehead.client import ApiClient, Informer
from bridgehead.client.errors import AlreadyExists, NotFound
from bridgehead.objects.core import Secret
from bridgehead.objects.kinds import SECRETS

log = logging.getLogger(__name__)

_KEY_BYTES: Final = 32


async def ensure_secret(client: ApiClient, namespace: str) -> None:
    """Create the Secret with a random key if it is missing. Raises ClientError."""
    try:
        await client.get(SECRETS, SECRET_NAME, namespace)
    except NotFound:
        key = base64.b64encode(secrets.token_bytes(_KEY_BYTES))
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SECRET_NAME, "namespace": namespace},
            "data": {KEY: key.decode()},
        }
        try:
            await client.create(SECRETS, body)
        except AlreadyExists:
            return
        log.info("created the Secret %s/%s", namespace, SECRET_NAME)


async def watch_secret(client: ApiClient, namespace: str, on_deletion: Callable[[], None]) -> None:
    """Call `on_deletion` whenever the Secret has been deleted, until cancelled."""

    def changed(old: Secret | None, new: Secret | None) -> None:
        if new is None:
            on_deletion()

    informer = Informer(client, SECRETS, namespace, field_selector=f"metadata.name={SECRET_NAME}")
    informer.on_change(changed)
    await informer.run()

"""The Secret that speakers share: the key of their heartbeats."""

from __future__ import annotations

import base64
import logging
import secrets
from typing import Final

from bridgehead.balancer.heartbeat_key import KEY, KINDS_ANNOTATION, SECRET_NAME
from bridgehead.balancer.kinds_in_use import NOT_READ
from bridgehead.client import ApiClient
from bridgehead.client.errors import AlreadyExists, NotFound
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
            "metadata": {"name": SECRET_NAME, "namespace": namespace, "annotations": {KINDS_ANNOTATION: NOT_READ}},
            "data": {KEY: key.decode()},
        }
        try:
            await client.create(SECRETS, body)
        except AlreadyExists:
            return
        log.info("created the Secret %s/%s", namespace, SECRET_NAME)

"""Publishes the kinds of configuration objects of which there are any, in an annotation of the speakers' Secret."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from bridgehead.backoff import Backoff
from bridgehead.balancer.configuration_watch import ConfigurationWatch
from bridgehead.balancer.heartbeat_key import KINDS_ANNOTATION, SECRET_NAME
from bridgehead.balancer.kinds_in_use import format_kinds
from bridgehead.client import ApiClient, Informer
from bridgehead.client.errors import ClientError, NotFound
from bridgehead.objects.core import Secret
from bridgehead.objects.kinds import SECRETS
from bridgehead.objects.meta import ObjectKey

log = logging.getLogger(__name__)

_DELAYS: Final = (0.2, 5.0)  # seconds: first and longest between attempts


class KindsPublisher:
    """Keeps the annotation of the Secret in `namespace` equal to the objects that `watch` has.

    `secret` is an informer of the Secret, which the caller runs.
    """

    def __init__(self, client: ApiClient, namespace: str, watch: ConfigurationWatch, secret: Informer[Secret]) -> None:
        self._client = client
        self._namespace = namespace
        self._watch = watch
        self._secret = secret
        self._outdated = asyncio.Event()

    async def run(self) -> None:
        """Publish until cancelled."""
        await self._watch.wait_read()  # a kind that was not read would seem to have no objects
        self._watch.on_compiled = self._outdated.set
        self._secret.on_change(lambda _old, _new: self._outdated.set())
        self._outdated.set()
        backoff = Backoff(*_DELAYS)
        while True:
            await self._outdated.wait()
            self._outdated.clear()
            try:
                await self._write()
                backoff.reset()
            except ClientError as error:
                if backoff.failures == 0:
                    log.warning("cannot publish the kinds of configuration objects, trying again: %s", error)
                await asyncio.sleep(backoff.next())
                self._outdated.set()

    async def _write(self) -> None:
        found = self._secret.get(ObjectKey(self._namespace, SECRET_NAME))
        wanted = format_kinds(self._watch.names_in_use())
        if found is None or found.metadata.annotations.get(KINDS_ANNOTATION) == wanted:
            return
        patch = {"metadata": {"annotations": {KINDS_ANNOTATION: wanted}}}
        with contextlib.suppress(NotFound):  # it is made anew, and the informer reports that
            await self._client.patch(SECRETS, SECRET_NAME, self._namespace, patch)

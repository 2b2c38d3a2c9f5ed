"""One annotation of the Secret that all speakers read, kept as it has to be."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from bridgehead.backoff import Backoff
from bridgehead.balancer.heartbeat_key import SECRET_NAME
from bridgehead.client import ApiClient, Informer
from bridgehead.client.errors import ClientError, NotFound
from bridgehead.objects.core import Secret
from bridgehead.objects.kinds import SECRETS
from bridgehead.objects.meta import ObjectKey

log = logging.getLogger(__name__)

_DELAYS: Final = (0.2, 5.0)  # seconds: first and longest between attempts


class SecretAnnotation:
    """Writes the annotation `name` of the Secret in `namespace` whenever it is not what `wanted` returns (None: none).

    `secret` is an informer of the Secret, which the caller runs. `failure`: the warning when a write fails.
    """

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        secret: Informer[Secret],
        name: str,
        wanted: Callable[[], str | None],
        failure: str,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._secret = secret
        self._name = name
        self._wanted = wanted
        self._failure = failure
        self._outdated = asyncio.Event()

    def check(self) -> None:
        """Compare the annotation again: another value may be wanted."""
        self._outdated.set()

    async def run(self) -> None:
        """Write until cancelled."""
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
                    log.warning("%s, trying again: %s", self._failure, error)
                await asyncio.sleep(backoff.next())
                self._outdated.set()

    async def _write(self) -> None:
        found = self._secret.get(ObjectKey(self._namespace, SECRET_NAME))
        wanted = self._wanted()
        if found is None or found.metadata.annotations.get(self._name) == wanted:
            return
        patch = {"metadata": {"annotations": {self._name: wanted}}}
        with contextlib.suppress(NotFound):  # it is made anew, and the informer reports that
            await self._client.patch(SECRETS, SECRET_NAME, self._namespace, patch)

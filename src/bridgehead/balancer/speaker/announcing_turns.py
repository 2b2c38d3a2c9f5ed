"""Stepping back for a MetalLB or OpenELB: the controller publishes when speakers may announce."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from bridgehead.balancer.heartbeat_key import SECRET_NAME, STEPPED_BACK_ANNOTATION
from bridgehead.client import ApiClient, Informer
from bridgehead.objects.core import Secret
from bridgehead.objects.kinds import SECRETS

_FIRST_SECONDS: Final = 2.0  # in which an API server that does not answer delays the speaker


class Turns:
    """Follows the speakers' Secret in `namespace` while `run` runs.

    `other`: the pod of MetalLB or OpenELB to which the addresses are left; "" if this speaker may announce.
    """

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self._secrets: Informer[Secret] = Informer(
            client, SECRETS, namespace, field_selector=f"metadata.name={SECRET_NAME}"
        )
        self._changed = asyncio.Event()
        self.other = ""

    async def run(self) -> None:
        """Follow the Secret until cancelled."""
        self._secrets.on_change(self._secret_changed)
        await self._secrets.run()

    async def wait_known(self) -> None:
        """Wait until the Secret has been read, but not for long: what was announced before goes on."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_SECONDS):
                await self._secrets.wait_synced()

    async def wait(self, *, may_announce: bool) -> None:
        """Wait until this speaker may announce, or may not."""
        while (not self.other) != may_announce:
            self._changed.clear()
            await self._changed.wait()

    def _secret_changed(self, old: Secret | None, new: Secret | None) -> None:
        if new is not None:  # a controller makes a deleted one anew
            self.other = new.metadata.annotations.get(STEPPED_BACK_ANNOTATION, "")
            self._changed.set()

"""The Secret that all speakers read, which the controller creates: the key of their heartbeats, and two annotations.

One annotation is the pod of a MetalLB or OpenELB for which this balancer steps back, so that speakers need not see any
pod. The other one lists the kinds of configuration objects of which there are any (see `kinds_in_use`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from bridgehead.balancer.heartbeat_key import KINDS_ANNOTATION, SECRET_NAME, STEPPED_BACK_ANNOTATION
from bridgehead.balancer.kinds_in_use import KindsInUse
from bridgehead.client import ApiClient, Informer
from bridgehead.objects.core import Secret
from bridgehead.objects.kinds import SECRETS

_FIRST_SECONDS: Final = 2.0  # in which an API server that does not answer delays the speaker

Follower = Callable[[Secret], None]


class SpeakersSecret:
    """Follows the Secret in `namespace` while `run` runs.

    `other`: the pod of MetalLB or OpenELB to which the addresses are left; "" if this speaker may announce.
    """

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self._informer: Informer[Secret] = Informer(
            client, SECRETS, namespace, field_selector=f"metadata.name={SECRET_NAME}", few=True
        )
        self._changed = asyncio.Event()
        self._last: Secret | None = None
        self._followers: list[Follower] = []
        self.other = ""
        self.kinds = KindsInUse()

    async def run(self) -> None:
        """Follow the Secret until cancelled."""
        self._informer.on_change(self._secret_changed)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run())
            await self._informer.wait_synced()
            if self._last is None:
                self.kinds.await_controller()

    async def wait_known(self) -> None:
        """Wait until the Secret has been read, but not for long: what was announced before goes on."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_SECONDS):
                await self._informer.wait_synced()

    async def wait(self, *, may_announce: bool) -> None:
        """Wait until this speaker may announce, or may not."""
        while (not self.other) != may_announce:
            self._changed.clear()
            await self._changed.wait()

    @contextlib.contextmanager
    def following(self, follower: Follower) -> Iterator[None]:
        """Call `follower` with the Secret now, if there is one, and after each change until the block ends."""
        self._followers.append(follower)
        try:
            if self._last is not None:
                follower(self._last)
            yield
        finally:
            self._followers.remove(follower)

    def _secret_changed(self, old: Secret | None, new: Secret | None) -> None:
        if new is None:
            return  # what was read stays in use; a controller makes a deleted one anew
        self._last = new
        annotations = new.metadata.annotations
        self.other = annotations.get(STEPPED_BACK_ANNOTATION, "")
        self.kinds.set_annotation(annotations.get(KINDS_ANNOTATION))
        self._changed.set()
        for follower in tuple(self._followers):
            follower(new)

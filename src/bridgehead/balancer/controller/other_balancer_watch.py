"""Watch of the pods of MetalLB and OpenELB: a real one serves the Services itself, a stand-in does not."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from bridgehead.balancer.other_balancers import LABEL_SELECTORS, find_other, stand_ins
from bridgehead.client import ApiClient, Informer
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import PODS

log = logging.getLogger(__name__)

_FIRST_SECONDS: Final = 5.0  # in which the pods delay the controller; it may lack the right to see them


class OtherBalancerWatch:
    """Knows the pods while `run` runs. `other`: a pod of a real MetalLB or OpenELB of this loadBalancerClass."""

    def __init__(self, client: ApiClient, lb_class: str) -> None:
        self._lb_class = lb_class
        self._informers = tuple(Informer(client, PODS, label_selector=selector) for selector in LABEL_SELECTORS)
        self._known: frozenset[str] = frozenset()  # uids of the last `other`
        self._changed = asyncio.Event()
        self._handlers: list[Callable[[], None]] = []
        self.other: Pod | None = None
        self.stand_ins: frozenset[str] = frozenset()  # uids of pods

    def on_change(self, handler: Callable[[], None]) -> Callable[[], None]:
        """Call `handler` after each change of `stand_ins`; return what ends this."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    async def run(self) -> None:
        """Follow the pods until cancelled."""
        for informer in self._informers:
            informer.on_change(lambda _old, _new: self._look())
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run())

    async def wait_synced(self) -> None:
        """Wait until the pods are known, but not for long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_SECONDS):
                for informer in self._informers:
                    await informer.wait_synced()
        self._look()

    async def wait_other(self) -> None:
        """Wait until a real one runs."""
        while self.other is None:
            self._changed.clear()
            await self._changed.wait()

    async def wait_alone(self) -> None:
        """Wait until no real one runs."""
        while self.other is not None:
            self._changed.clear()
            await self._changed.wait()

    def _look(self) -> None:
        pods = {pod.key: pod for informer in self._informers for pod in informer.items()}
        before = self.other
        self.other = find_other(pods.values(), self._lb_class, self._known)
        self._known = frozenset() if self.other is None else self._known | {self.other.metadata.uid}
        if (before is None) != (self.other is None):
            self._changed.set()
        found = stand_ins(pods.values())
        if found != self.stand_ins:
            self.stand_ins = found
            for handler in list(self._handlers):
                handler()

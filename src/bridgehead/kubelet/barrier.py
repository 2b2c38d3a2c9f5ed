"""Holds a terminating pod until no node sends it new connections any more.

A pod worker asks before it sends SIGTERM. The pod is withdrawn when the slices of its Services say that it terminates,
and it is out of the kernels when every proxy that is alive says that it has programmed those slices
(`objects/progress.py`; what decides is in `withdrawal.py`). Kubernetes has no such barrier: there, "sleep" in a preStop
hook stands for it.

Watches run only while a pod waits and a moment longer, and are shared by all that wait: an idle node costs nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar

from bridgehead.client import ApiClient, Informer
from bridgehead.client.errors import ClientError, Forbidden
from bridgehead.objects import progress
from bridgehead.objects.coordination import Lease
from bridgehead.objects.core import Pod, Service
from bridgehead.objects.discovery import SERVICE_NAME_LABEL, EndpointSlice
from bridgehead.objects.kinds import ENDPOINT_SLICES, LEASES
from bridgehead.objects.meta import Object, ObjectKey
from bridgehead.objects.progress import Progress, Versions, find_behind, is_behind, latest_version

from .withdrawal import find_leading, is_long_unready, is_withdrawn, pods_of

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)

LINGER_SECONDS = 5.0  # how long a watch outlives its last reader: in a rolling update the next one is near
ANSWER_SECONDS = 0.05  # for what was connected just before the last kernel changed to be accepted and answered
FORBIDDEN_SECONDS = 300.0
_NAMESPACE, _POD = "namespace", "pod"  # indexes
_NAMED = 5  # nodes in a log line


class Barrier:
    """An async context manager: its watches end with it. `services` is the kubelet's own copy; `now` epoch seconds."""

    def __init__(self, client: ApiClient, services: Informer[Service], *, now: Callable[[], float] = time.time) -> None:
        self._client = client
        self._services = services
        self._now = now
        self._tasks = asyncio.TaskGroup()
        self._leases: _Shared[Lease] = _Shared(
            lambda: Informer(client, LEASES, namespace=progress.NAMESPACE, label_selector=progress.SELECTOR),
            self._tasks,
        )
        self._slices: dict[ObjectKey, _Shared[EndpointSlice]] = {}
        self._forbidden_until = 0.0
        services.add_index(_NAMESPACE, lambda service: (service.metadata.namespace,))

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leases.close()
        for shared in self._slices.values():
            shared.close()
        await self._tasks.__aexit__(kind, error, trace)

    async def hold(self, pod: Pod, seconds: float) -> None:
        """Return when no proxy sends the pod, which is terminating, anything new; after `seconds` in any case."""
        if seconds <= 0 or is_long_unready(pod, self._now()):
            return
        services = find_leading(pod, self._services.by_index(_NAMESPACE, pod.metadata.namespace))
        if not services or asyncio.get_running_loop().time() < self._forbidden_until:
            return
        wait = _Wait(pod)
        try:
            async with asyncio.timeout(seconds):
                await self._wait(wait, services)
        except TimeoutError:
            log.warning("pod %s: stopped after %.1f s although %s", pod.key, seconds, wait.reason(self._now()))

    async def _wait(self, wait: _Wait, services: Sequence[Service]) -> None:
        changed = asyncio.Event()
        async with contextlib.AsyncExitStack() as stack:
            slices = [(s, await stack.enter_async_context(self._slices_of(s.key).use(changed))) for s in services]
            if not await self._is_published():
                return
            leases = await stack.enter_async_context(self._leases.use(changed))
            for _, informer in slices:
                await informer.wait_synced()
            while not self._is_withdrawn(wait, slices):
                await changed.wait()
                changed.clear()
            await leases.wait_synced()
            wait.leases = leases
            # Who is not behind now never will be: each is looked at until it has arrived, and then no more.
            pending = list(leases.keys())
            while pending:
                lease = leases.get(pending[-1])
                if lease is None or not is_behind(lease, wait.wanted, self._now()):
                    pending.pop()
                    continue
                await changed.wait()
                changed.clear()
        await asyncio.sleep(ANSWER_SECONDS)

    def _is_withdrawn(self, wait: _Wait, slices: Sequence[tuple[Service, Informer[EndpointSlice]]]) -> bool:
        latest = 0
        for service, informer in slices:
            if self._services.get(service.key) is None:
                continue  # it was deleted meanwhile
            if not is_withdrawn(wait.pod, service, informer.by_index(_POD, wait.pod.metadata.uid)):
                return False
            latest = max(latest, latest_version(informer.items()))
        wait.wanted = Versions(slices=latest)
        return True

    async def _is_published(self) -> bool:
        """Whether any proxy makes known how far it is. Asked once for each time that the Leases are watched."""
        if self._leases.is_running:
            return True
        try:
            page = await self._client.list(LEASES, progress.NAMESPACE, progress.SELECTOR, limit=1)
        except Forbidden as error:
            log.warning("terminating pods are not held until the proxies know: %s", error)
            self._forbidden_until = asyncio.get_running_loop().time() + FORBIDDEN_SECONDS
            return False
        except ClientError as error:
            log.debug("leases not listed: %s", error)  # the informer goes on asking
            return True
        return bool(page.items)

    def _slices_of(self, service: ObjectKey) -> _Shared[EndpointSlice]:
        for key in [key for key, shared in self._slices.items() if not shared.is_running and key != service]:
            del self._slices[key]
        shared = self._slices.get(service)
        if shared is None:
            selector = f"{SERVICE_NAME_LABEL}={service.name}"
            shared = self._slices[service] = _Shared(
                lambda: Informer(self._client, ENDPOINT_SLICES, service.namespace, selector, indexes={_POD: pods_of}),
                self._tasks,
            )
        return shared


class _Wait:
    """One pod's wait, and how far it has come."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.wanted = Versions()
        self.leases: Informer[Lease] | None = None

    def reason(self, now: float) -> str:
        """What it still waits for."""
        behind = find_behind(self.leases.items(), self.wanted, now) if self.leases is not None else []
        if behind:
            return f"{describe(behind)} may still send it connections"
        if any(self.wanted):
            return "it is not known how far the proxies are"
        return "its endpoint slices do not say yet that it terminates"


def describe(behind: Sequence[Progress]) -> str:
    """`the proxy of node2`, `the proxies of node1, node2 and 3 others`."""
    names = [progress.node for progress in behind]
    if len(names) == 1:
        return f"the proxy of {names[0]}"
    if len(names) <= _NAMED:
        return f"the proxies of {', '.join(names[:-1])} and {names[-1]}"
    return f"the proxies of {', '.join(names[:_NAMED])} and {len(names) - _NAMED} others"


class _Shared(Generic[T]):
    """An informer that runs from its first use until a while after its last."""

    def __init__(self, make: Callable[[], Informer[T]], tasks: asyncio.TaskGroup) -> None:
        self._make = make
        self._tasks = tasks
        self._informer: Informer[T] | None = None
        self._run: asyncio.Task[None] | None = None
        self._readers: set[asyncio.Event] = set()
        self._end: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        return self._run is not None

    @contextlib.asynccontextmanager
    async def use(self, changed: asyncio.Event) -> AsyncIterator[Informer[T]]:
        """The informer, which may have to be synced yet; `changed` is set whenever it hears of something."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
        if self._informer is None:
            self._informer = self._make()
            self._informer.on_change(self._tell)
            self._run = self._tasks.create_task(self._informer.run())
        self._readers.add(changed)
        try:
            yield self._informer
        finally:
            self._readers.discard(changed)
            if not self._readers:
                self._end = asyncio.get_running_loop().call_later(LINGER_SECONDS, self.close)

    def close(self) -> None:
        if self._end is not None:
            self._end.cancel()
        if self._run is not None:
            self._run.cancel()
        self._informer = self._run = self._end = None

    def _tell(self, old: T | None, new: T | None) -> None:
        for changed in self._readers:
            changed.set()

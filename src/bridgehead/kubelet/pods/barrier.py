"""The termination barrier: holds SIGTERM back until no node sends a terminating pod new connections.

Called by a pod worker before SIGTERM. A pod is withdrawn when the EndpointSlices of its Services mark it as
terminating (`withdrawal.py`). It gets no more connections when every live proxy reports, in its Lease, that its kernel
is programmed with those slices (`objects/progress.py`). If clients from outside have to change to another node, the pod
serves for as long as that takes. Kubernetes has no such barrier; users put `sleep` into a preStop hook instead.

Watches run while a pod waits and a few seconds longer, and are shared by all waiting pods, so an idle node has none.
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
from bridgehead.objects.endpoint_slices import EndpointSlice, service_selector
from bridgehead.objects.kinds import ENDPOINT_SLICES, LEASES
from bridgehead.objects.meta import Object, ObjectKey
from bridgehead.objects.progress import Progress, Versions, find_behind, is_behind, latest_version

from .withdrawal import find_services_of, is_leaving_node, is_long_unready, is_withdrawn, pods_of

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)

LINGER_SECONDS = 5.0  # how long a watch outlives its last reader: a rolling update soon brings the next one
ANSWER_SECONDS = 0.25  # for connections made just before the last kernel changed: to be answered, also on a busy node
LEAVE_SECONDS = 1.0  # until another node announces an address; this node's proxy sends the pod what still arrives
FORBIDDEN_SECONDS = 300.0
_NAMESPACE, _POD = "namespace", "pod"  # indexes
_MAX_NAMED_NODES = 5  # in a log line


class Barrier:
    """An async context manager; its watches end with it.

    `services` is the kubelet's informer; `now` returns seconds since the epoch.
    """

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
        """Return when nobody sends the terminating pod new connections, or after `seconds`."""
        if seconds <= 0 or is_long_unready(pod, self._now()):
            return
        services = find_services_of(pod, self._services.by_index(_NAMESPACE, pod.metadata.namespace))
        if not services or asyncio.get_running_loop().time() < self._forbidden_until:
            return
        wait = _Wait(pod)
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        try:
            async with asyncio.timeout_at(end):
                rest = await self._wait(wait, services)
        except TimeoutError:
            log.warning("pod %s: stopped after %.1f s although %s", pod.key, seconds, wait.reason(self._now()))
        else:
            await asyncio.sleep(min(rest, end - loop.time()))

    async def _wait(self, wait: _Wait, services: Sequence[Service]) -> float:
        """Wait until every proxy has the slices that withdraw the pod. Return for how many seconds it is to serve."""
        changed = asyncio.Event()
        async with contextlib.AsyncExitStack() as stack:
            slices = [(s, await stack.enter_async_context(self._slices_of(s.key).use(changed))) for s in services]
            if not await self._is_published():
                return 0.0
            leases = await stack.enter_async_context(self._leases.use(changed))
            for _, informer in slices:
                await informer.wait_synced()
            while not self._is_withdrawn(wait, slices):
                await changed.wait()
                changed.clear()
            leaving = any(is_leaving_node(wait.pod, service, informer.items()) for service, informer in slices)
            await leases.wait_synced()
            wait.leases = leases
            # A proxy that has caught up stays so: each Lease is checked until its proxy has, and then never again.
            pending = list(leases.keys())
            while pending:
                lease = leases.get(pending[-1])
                if lease is None or not is_behind(lease, wait.wanted, self._now()):
                    pending.pop()
                    continue
                await changed.wait()
                changed.clear()
        return LEAVE_SECONDS if leaving else ANSWER_SECONDS

    def _is_withdrawn(self, wait: _Wait, slices: Sequence[tuple[Service, Informer[EndpointSlice]]]) -> bool:
        latest = 0
        for service, informer in slices:
            if self._services.get(service.key) is None:
                continue  # the Service was deleted meanwhile
            if not is_withdrawn(wait.pod, service, informer.by_index(_POD, wait.pod.metadata.uid)):
                return False
            latest = max(latest, latest_version(informer.items()))
        wait.wanted = Versions(slices=latest)
        return True

    async def _is_published(self) -> bool:
        """Whether any proxy publishes its progress. Checked once, before the watch of the Leases begins."""
        if self._leases.is_running:
            return True
        try:
            page = await self._client.list(LEASES, progress.NAMESPACE, progress.SELECTOR, limit=1)
        except Forbidden as error:
            log.warning("terminating pods are not held until proxies have caught up: %s", error)
            self._forbidden_until = asyncio.get_running_loop().time() + FORBIDDEN_SECONDS
            return False
        except ClientError as error:
            log.debug("leases not listed: %s", error)  # the informer retries
            return True
        return bool(page.items)

    def _slices_of(self, service: ObjectKey) -> _Shared[EndpointSlice]:
        for key in [key for key, shared in self._slices.items() if not shared.is_running and key != service]:
            del self._slices[key]
        shared = self._slices.get(service)
        if shared is None:
            selector = service_selector(service.name)
            shared = self._slices[service] = _Shared(
                lambda: Informer(self._client, ENDPOINT_SLICES, service.namespace, selector, indexes={_POD: pods_of}),
                self._tasks,
            )
        return shared


class _Wait:
    """The wait of one pod: the versions that proxies must reach, and their Leases."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.wanted = Versions()
        self.leases: Informer[Lease] | None = None

    def reason(self, now: float) -> str:
        """Describe what the pod still waits for."""
        behind = find_behind(self.leases.items(), self.wanted, now) if self.leases is not None else []
        if behind:
            return f"{describe(behind)} may still send it connections"
        if any(self.wanted):
            return "the progress of the proxies is not known"
        return "its endpoint slices do not mark it as terminating yet"


def describe(behind: Sequence[Progress]) -> str:
    """Describe nodes: `the proxy of node2`, `the proxies of node1, node2 and 3 others`."""
    names = [progress.node for progress in behind]
    if len(names) == 1:
        return f"the proxy of {names[0]}"
    if len(names) <= _MAX_NAMED_NODES:
        return f"the proxies of {', '.join(names[:-1])} and {names[-1]}"
    return f"the proxies of {', '.join(names[:_MAX_NAMED_NODES])} and {len(names) - _MAX_NAMED_NODES} others"


class _Shared(Generic[T]):
    """An informer that runs from its first use until `LINGER_SECONDS` after its last."""

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
        """Yield the informer, which may not be synced yet; `changed` is set whenever it receives a change."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
        if self._informer is None:
            self._informer = self._make()
            self._informer.on_change(self._notify)
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

    def _notify(self, old: T | None, new: T | None) -> None:
        for changed in self._readers:
            changed.set()

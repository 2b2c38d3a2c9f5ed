"""ServiceL2Status and ServiceBGPStatus objects: which nodes announce which Service, for kubectl.

A speaker creates and deletes the objects of its own node, which it follows once there is one, and watches no others:
those of all nodes are as many as Services times nodes. When members come or go, it lists the objects of nodes that are
not alive, and deletes those of Services that it announces, too; a speaker that announces nothing lists them when it
begins to.
Source: MetalLB's objects, their names and labels.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from bridgehead.balancer.announcer import Held
from bridgehead.balancer.short_names import shortened
from bridgehead.client import ApiClient, Done, Informer, Outcome, WorkQueue
from bridgehead.client.codec import ListResult
from bridgehead.client.errors import AlreadyExists, ClientError, Conflict, NotFound
from bridgehead.objects.kinds import Kind
from bridgehead.objects.meta import ObjectKey, ObjectMeta
from bridgehead.objects.metallb import SERVICE_BGP_STATUSES, SERVICE_L2_STATUSES, ServiceBGPStatus, ServiceL2Status
from bridgehead.racing import race

from .trimming import trim_bgp_status, trim_layer2_status

log = logging.getLogger(__name__)

NODE_LABEL: Final = "metallb.io/node"
NAME_LABEL: Final = "metallb.io/service-name"
NAMESPACE_LABEL: Final = "metallb.io/service-namespace"
_WORKERS: Final = 4
_SWEEP_SECONDS: Final = 0.2
_RETRY_SECONDS: Final = 5.0
_NAME_DIGITS: Final = 12

Status = TypeVar("Status", ServiceL2Status, ServiceBGPStatus)


@dataclass(frozen=True)
class StatusKind(Generic[Status]):
    """The objects of one protocol. `render`: a part of the status, from the details of what is held.

    `trim`: what a speaker keeps of an object.
    """

    protocol: str
    kind: Kind[Status]
    name_prefix: str
    render: Callable[[tuple[str, ...]], dict[str, Any]]
    details: Callable[[Status], tuple[str, ...]]
    trim: Callable[[Status], Status]


LAYER2: Final[StatusKind[ServiceL2Status]] = StatusKind(
    "layer2",
    SERVICE_L2_STATUSES,
    "l2-",
    lambda interfaces: {"interfaces": [{"name": name} for name in interfaces]},
    lambda found: tuple(interface.name for interface in found.status.interfaces),
    trim_layer2_status,
)
BGP: Final[StatusKind[ServiceBGPStatus]] = StatusKind(
    "bgp",
    SERVICE_BGP_STATUSES,
    "bgp-",
    lambda peers: {"peers": list(peers)},
    lambda found: found.status.peers,
    trim_bgp_status,
)


class ServiceStatuses(Generic[Status]):
    """Keeps the objects of this node equal to what `set_held` was last called with.

    `alive` returns the nodes whose speakers are alive, so that they delete their own objects. Call `members_changed`
    when that changes.
    """

    def __init__(
        self,
        kind: StatusKind[Status],
        client: ApiClient,
        node: str,
        namespace: str,
        alive: Callable[[], Collection[str]],
    ) -> None:
        self._kind: StatusKind[Status] = kind
        self._client = client
        self._node = node
        self._namespace = namespace
        self._alive = alive
        self._must_sweep = asyncio.Event()
        self._must_list = False  # members have changed while this node announced nothing
        self._stale: set[ObjectKey] = set()  # Services of which a node that is not alive has an object
        self._held: dict[ObjectKey, tuple[str, ...]] = {}  # interfaces or peers by Service
        self._is_needed = asyncio.Event()  # this node has announced something
        self._selector = f"{NODE_LABEL}={shortened(node)}"
        self._informer: Informer[Status] = Informer(
            client,
            kind.kind,
            namespace,
            label_selector=self._selector,
            indexes={"service": _index_by_service},
            trim=kind.trim,
        )
        self._queue: WorkQueue[ObjectKey] = WorkQueue(kind.kind.plural)

    def set_held(self, service: ObjectKey, held: tuple[Held, ...]) -> None:
        """Take what this node announces of a Service."""
        found = [entry for entry in held if entry.protocol == self._kind.protocol and entry.detail]
        details = tuple(sorted({name for entry in found for name in entry.detail}))
        if found and self._held.get(service) != details:
            self._held[service] = details
            self._is_needed.set()
        elif found or self._held.pop(service, None) is None:
            return
        self._queue.add(service)
        if service in self._stale or (self._must_list and found):
            self._must_list = False
            self._must_sweep.set()

    def members_changed(self) -> None:
        """Look for objects of nodes that are not alive."""
        if self._held:
            self._must_sweep.set()
        else:
            self._must_list = True

    async def run(self) -> None:
        """Write until cancelled."""
        await self._wait_needed()
        self._informer.on_change(self._changed)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run())
            await self._informer.wait_synced()
            tasks.create_task(self._queue.run(self._reconcile, workers=_WORKERS))
            tasks.create_task(self._sweep())

    async def _wait_needed(self) -> None:
        """Wait until this node announces something, or has objects of an earlier run: most nodes have no object."""
        while not self._is_needed.is_set():
            try:
                left = await self._client.list(self._kind.kind, self._namespace, label_selector=self._selector, limit=1)
            except NotFound:  # the kind is not installed, so there are no objects
                left = ListResult()
            except ClientError as error:
                log.debug("%s: %s", self._kind.kind.plural, error)
                await race(self._is_needed.wait(), asyncio.sleep(_RETRY_SECONDS))
                continue
            if left.items:
                return
            await self._is_needed.wait()

    async def _sweep(self) -> None:
        """Delete the objects of nodes that are not alive, of Services that this node announces."""
        while True:
            await self._must_sweep.wait()
            await asyncio.sleep(_SWEEP_SECONDS)  # one list for all Services that are taken over together
            self._must_sweep.clear()
            try:
                await self._delete_stale()
            except ClientError as error:
                log.debug("%s: %s", self._kind.kind.plural, error)
                await asyncio.sleep(_RETRY_SECONDS)
                self._must_sweep.set()

    async def _delete_stale(self) -> None:
        selector = ",".join((NODE_LABEL, *(f"{NODE_LABEL}!={label}" for label in sorted(self._labels_alive()))))
        found = await self._client.list(self._kind.kind, self._namespace, label_selector=selector)
        self._stale = {service for status in found.items if (service := _service_of(status)) is not None}
        for status in found.items:
            meta = status.metadata
            if _service_of(status) in self._held and meta.labels.get(NODE_LABEL) not in self._labels_alive():
                with contextlib.suppress(NotFound, Conflict):  # another speaker was faster
                    await self._client.delete(self._kind.kind, meta.name, meta.namespace, uid=meta.uid)

    def _labels_alive(self) -> set[str]:
        return {shortened(node) for node in self._alive()}

    def _changed(self, old: Status | None, new: Status | None) -> None:
        status = new if new is not None else old
        if status is not None and (service := _service_of(status)) is not None:
            self._queue.add(service)

    async def _reconcile(self, service: ObjectKey) -> Outcome:
        details = self._held.get(service)
        wanted = self._object(service)
        own = self._informer.by_index("service", str(service))
        kept = [status for status in own if details is not None and status.metadata.name == wanted.metadata.name]
        for status in own:
            if status not in kept:
                meta = status.metadata
                with contextlib.suppress(NotFound, Conflict):
                    await self._client.delete(self._kind.kind, meta.name, meta.namespace, uid=meta.uid)
        if details is None:
            return Done()
        if kept and kept[0].status.node == self._node and self._kind.details(kept[0]) == details:
            return Done()
        if not kept:
            await self._create(wanted)
        try:
            await self._write_status(wanted, details)
        except NotFound:
            # Another speaker, which believed this one dead, has deleted it, and the watch has not reported it yet.
            await self._create(wanted)
            await self._write_status(wanted, details)
        return Done()

    async def _create(self, status: Status) -> None:
        with contextlib.suppress(AlreadyExists):  # the watch has not reported it yet
            await self._client.create(self._kind.kind, status)

    async def _write_status(self, status: Status, details: tuple[str, ...]) -> None:
        labels = status.metadata.labels
        fields = {
            "node": self._node,
            "serviceName": labels[NAME_LABEL],
            "serviceNamespace": labels[NAMESPACE_LABEL],
            **self._kind.render(details),
        }
        name = status.metadata.name
        await self._client.patch(self._kind.kind, name, self._namespace, {"status": fields}, subresource="status")

    def _object(self, service: ObjectKey) -> Status:
        labels = {NODE_LABEL: shortened(self._node), NAME_LABEL: service.name, NAMESPACE_LABEL: service.namespace}
        # MetalLB's names are random. A name of its own for each node and Service keeps a second object from being made.
        digest = hashlib.sha256(f"{self._node}/{service}".encode()).hexdigest()[:_NAME_DIGITS]
        meta = ObjectMeta(name=self._kind.name_prefix + digest, namespace=self._namespace, labels=labels)
        return self._kind.kind.type(metadata=meta)


def _service_of(status: ServiceL2Status | ServiceBGPStatus) -> ObjectKey | None:
    labels = status.metadata.labels
    name, namespace = labels.get(NAME_LABEL), labels.get(NAMESPACE_LABEL)
    return ObjectKey(namespace, name) if name and namespace else None


def _index_by_service(status: ServiceL2Status | ServiceBGPStatus) -> Iterator[str]:
    service = _service_of(status)
    if service is not None:
        yield str(service)

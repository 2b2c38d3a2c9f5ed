"""ServiceL2Status and ServiceBGPStatus objects: which nodes announce which Service, for kubectl.

A speaker creates and deletes the objects of its own node. The objects of a node that died are deleted by a speaker that
announces the Service, too. Source: MetalLB's objects, their names and labels.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from bridgehead.client import ApiClient, Done, Informer, Outcome, WorkQueue
from bridgehead.client.errors import AlreadyExists, Conflict, NotFound
from bridgehead.objects.kinds import Kind
from bridgehead.objects.meta import ObjectKey, ObjectMeta
from bridgehead.objects.metallb import SERVICE_BGP_STATUSES, SERVICE_L2_STATUSES, ServiceBGPStatus, ServiceL2Status

from .announcer import Held
from .trimming import trim_bgp_status, trim_layer2_status

NODE_LABEL: Final = "metallb.io/node"
NAME_LABEL: Final = "metallb.io/service-name"
NAMESPACE_LABEL: Final = "metallb.io/service-namespace"
_WORKERS: Final = 4
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

    `is_alive` returns whether a node's speaker is alive, so that it deletes its own objects.
    """

    def __init__(
        self,
        kind: StatusKind[Status],
        client: ApiClient,
        node: str,
        namespace: str,
        is_alive: Callable[[str], bool],
    ) -> None:
        self._kind: StatusKind[Status] = kind
        self._client = client
        self._node = node
        self._namespace = namespace
        self._is_alive = is_alive
        self._held: dict[ObjectKey, tuple[str, ...]] = {}  # interfaces or peers by Service
        self._informer: Informer[Status] = Informer(
            client, kind.kind, namespace, indexes={"service": _index_by_service}, trim=kind.trim
        )
        self._queue: WorkQueue[ObjectKey] = WorkQueue(kind.kind.plural)

    def set_held(self, service: ObjectKey, held: tuple[Held, ...]) -> None:
        """Take what this node announces of a Service."""
        found = [entry for entry in held if entry.protocol == self._kind.protocol]
        details = tuple(sorted({name for entry in found for name in entry.detail}))
        if found and self._held.get(service) != details:
            self._held[service] = details
        elif found or self._held.pop(service, None) is None:
            return
        self._queue.add(service)

    async def run(self) -> None:
        """Write until cancelled."""
        self._informer.on_change(self._changed)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run())
            await self._informer.wait_synced()
            tasks.create_task(self._queue.run(self._reconcile, workers=_WORKERS))

    def _changed(self, old: Status | None, new: Status | None) -> None:
        status = new if new is not None else old
        if status is not None and (service := _service_of(status)) is not None:
            self._queue.add(service)

    async def _reconcile(self, service: ObjectKey) -> Outcome:
        details = self._held.get(service)
        existing = self._informer.by_index("service", str(service))
        own = [status for status in existing if status.metadata.labels.get(NODE_LABEL) == self._node]
        wanted = self._object(service)
        kept = [status for status in own if details is not None and status.metadata.name == wanted.metadata.name]
        for status in existing:
            node = status.metadata.labels.get(NODE_LABEL, "")
            is_stale = node != self._node and details is not None and not self._is_alive(node)
            if is_stale or (status in own and status not in kept):
                meta = status.metadata
                with contextlib.suppress(NotFound, Conflict):  # another speaker was faster
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
        labels = {NODE_LABEL: self._node, NAME_LABEL: service.name, NAMESPACE_LABEL: service.namespace}
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

"""ServiceL2Status objects: which node announces which Service, for `kubectl get servicel2statuses`.

A speaker creates and deletes the objects of its own node. The objects of a node that died are deleted by the speaker
that takes the Service over. Source: MetalLB's ServiceL2Status, its names and labels.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from bridgehead.client import ApiClient, Done, Informer, Outcome, WorkQueue
from bridgehead.client.errors import Conflict, NotFound
from bridgehead.objects.meta import ObjectKey, ObjectMeta
from bridgehead.objects.metallb import (
    SERVICE_L2_STATUSES,
    InterfaceInfo,
    ServiceL2Status,
    ServiceL2StatusStatus,
)

from .announcer import Held

NODE_LABEL: Final = "metallb.io/node"
NAME_LABEL: Final = "metallb.io/service-name"
NAMESPACE_LABEL: Final = "metallb.io/service-namespace"
PROTOCOL: Final = "layer2"
_WORKERS: Final = 4


class L2Statuses:
    """Keeps the objects of this node equal to what `set_held` was last called with.

    `is_alive` returns whether a node's speaker is alive, so that it deletes its own objects.
    """

    def __init__(self, client: ApiClient, node: str, namespace: str, is_alive: Callable[[str], bool]) -> None:
        self._client = client
        self._node = node
        self._namespace = namespace
        self._is_alive = is_alive
        self._held: dict[ObjectKey, tuple[str, ...]] = {}  # interfaces by Service
        self._informer: Informer[ServiceL2Status] = Informer(
            client, SERVICE_L2_STATUSES, namespace, indexes={"service": _index_by_service}
        )
        self._queue: WorkQueue[ObjectKey] = WorkQueue("servicel2statuses")

    def set_held(self, service: ObjectKey, held: tuple[Held, ...]) -> None:
        """Take what this node announces of a Service."""
        found = [entry for entry in held if entry.protocol == PROTOCOL]
        interfaces = tuple(sorted({name for entry in found for name in entry.detail}))
        if found and self._held.get(service) != interfaces:
            self._held[service] = interfaces
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

    def _changed(self, old: ServiceL2Status | None, new: ServiceL2Status | None) -> None:
        status = new if new is not None else old
        if status is not None and (service := _service_of(status)) is not None:
            self._queue.add(service)

    async def _reconcile(self, service: ObjectKey) -> Outcome:
        interfaces = self._held.get(service)
        existing = self._informer.by_index("service", str(service))
        own = [status for status in existing if status.metadata.labels.get(NODE_LABEL) == self._node]
        kept = own[:1] if interfaces is not None else []
        for status in existing:
            node = status.metadata.labels.get(NODE_LABEL, "")
            is_stale = node != self._node and interfaces is not None and not self._is_alive(node)
            if is_stale or (status in own and status not in kept):
                meta = status.metadata
                with contextlib.suppress(NotFound, Conflict):  # another speaker was faster
                    await self._client.delete(SERVICE_L2_STATUSES, meta.name, meta.namespace, uid=meta.uid)
        if interfaces is None:
            return Done()
        wanted = ServiceL2StatusStatus(
            node=self._node,
            service_name=service.name,
            service_namespace=service.namespace,
            interfaces=tuple(InterfaceInfo(name=name) for name in interfaces),
        )
        if not kept:
            created = await self._client.create(SERVICE_L2_STATUSES, self._object(service))
        elif kept[0].status != wanted:
            created = kept[0]
        else:
            return Done()
        patch = {
            "status": {
                "node": wanted.node,
                "serviceName": wanted.service_name,
                "serviceNamespace": wanted.service_namespace,
                "interfaces": [{"name": name} for name in interfaces],
            }
        }
        await self._client.patch(
            SERVICE_L2_STATUSES, created.metadata.name, self._namespace, patch, subresource="status"
        )
        return Done()

    def _object(self, service: ObjectKey) -> ServiceL2Status:
        labels = {NODE_LABEL: self._node, NAME_LABEL: service.name, NAMESPACE_LABEL: service.namespace}
        return ServiceL2Status(
            metadata=ObjectMeta(generate_name="l2-", namespace=self._namespace, labels=labels),
        )


def _service_of(status: ServiceL2Status) -> ObjectKey | None:
    labels = status.metadata.labels
    name, namespace = labels.get(NAME_LABEL), labels.get(NAMESPACE_LABEL)
    return ObjectKey(namespace, name) if name and namespace else None


def _index_by_service(status: ServiceL2Status) -> Iterator[str]:
    service = _service_of(status)
    if service is not None:
        yield str(service)

"""The pod garbage collector: removes pods of deleted nodes, and deleted pods that no kubelet will stop: those that were
never scheduled, and those of nodes that are out of service.

Source: kube-controller-manager's pod-garbage-collector-controller (`pkg/controller/podgc`).
"""

from __future__ import annotations

from collections.abc import Callable
from time import time

from bridgehead.client import ApiClient, Done, EventRecorder, Outcome, Requeue, WorkQueue
from bridgehead.client.errors import Conflict, NotFound
from bridgehead.controllers.pod_status import disruption, patch_pod_status
from bridgehead.controllers.shared_informers import PODS_BY_NODE, Informers, node_of_pod
from bridgehead.objects.core import Node, Pod
from bridgehead.objects.kinds import NODES, PODS
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.taints import OUT_OF_SERVICE

from .watch_clock import Clock

QUARANTINE_SECONDS = 40.0  # a deleted node may register again, while this process receives heartbeats
_SHORTEST_WAIT_SECONDS = 0.5


class PodGarbageCollector:
    """Removes pods that no kubelet will stop. The keys of its queue are pods."""

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        recorder: EventRecorder,
        *,
        watch_clock: Clock,
        quarantine_seconds: float = QUARANTINE_SECONDS,
        now: Callable[[], float] = time,
    ) -> None:
        self._client = client
        self._watch_clock = watch_clock
        self._quarantine_seconds = quarantine_seconds
        self._now = now
        self._missing_since: dict[str, float] = {}
        self._nodes = informers.get(NODES)
        self._pods = informers.get(PODS)
        self._pods.add_index(PODS_BY_NODE, node_of_pod)
        self._queue: WorkQueue[ObjectKey] = WorkQueue("pod garbage")
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)

    async def run(self) -> None:
        await self._nodes.wait_synced()
        await self._pods.wait_synced()
        await self._queue.run(self.reconcile)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is not None:
            self._missing_since.pop(new.metadata.name, None)
        changed = new or old
        if changed is not None and (new is None or _is_out_of_service(new)):
            for pod in self._pods.by_index(PODS_BY_NODE, changed.metadata.name):
                self._queue.add(pod.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            return
        name = new.spec.node_name
        node = self._nodes.get(ObjectKey("", name))
        if (name and node is None) or (new.is_terminating and (node is None or _is_out_of_service(node))):
            self._queue.add(new.key)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Remove the pod if it has no node, or will not be stopped on it. Raises ClientError."""
        pod = self._pods.get(key)
        if pod is None:
            return Done()
        node = pod.spec.node_name
        present = self._nodes.get(ObjectKey("", node))
        if not node or present is not None:
            if pod.is_terminating and (present is None or _is_out_of_service(present)):
                await self._remove(pod)
            return Done()
        now = self._watch_clock.now()
        left = self._missing_since.setdefault(node, now) + self._quarantine_seconds - now
        if left > 0:
            return Requeue(max(left, _SHORTEST_WAIT_SECONDS))
        try:
            await self._client.get(NODES, node)
        except NotFound:
            condition = disruption("DeletionByPodGC", "PodGC: node no longer exists", self._now())
            await self._remove(pod, condition)
        return Done()

    async def _remove(self, pod: Pod, condition: dict[str, str] | None = None) -> None:
        try:
            if not pod.is_finished:
                status = {"phase": "Failed", "conditions": [condition] if condition is not None else []}
                await patch_pod_status(self._client, pod, status)
            metadata = pod.metadata
            await self._client.delete(PODS, metadata.name, metadata.namespace, uid=metadata.uid, grace_period_seconds=0)
        except (NotFound, Conflict):
            pass  # the pod is gone, or another pod has its name


def _is_out_of_service(node: Node) -> bool:
    """Whether a user has declared that a node which is not ready is shut down."""
    return not node.is_ready and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)

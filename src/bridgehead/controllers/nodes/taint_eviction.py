"""Taint-based eviction: deletes pods from nodes with a NoExecute taint when their toleration ends.

An unreachable node gets such a taint; the API server gives every pod a toleration of 300 seconds for it.
Source: kube-controller-manager's taint-eviction-controller.
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

from .eviction_time import NEVER, NO_EXECUTE, eviction_time


class TaintEvictionController:
    """Deletes pods that do not tolerate their node's taints. The keys of its queue are pods."""

    def __init__(
        self, client: ApiClient, informers: Informers, recorder: EventRecorder, *, now: Callable[[], float] = time
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._now = now
        self._nodes = informers.get(NODES)
        self._pods = informers.get(PODS)
        self._pods.add_index(PODS_BY_NODE, node_of_pod)
        # When the taints of the node were first seen, of pods that tolerate them for a time; by the pod's uid.
        self._waiting: dict[str, float] = {}
        self._queue: WorkQueue[ObjectKey] = WorkQueue("taint eviction")
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)

    async def run(self) -> None:
        await self._nodes.wait_synced()
        await self._pods.wait_synced()
        await self._queue.run(self.reconcile)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None or (old is not None and old.spec.taints == new.spec.taints):
            return
        if _is_tainted(new) or (old is not None and _is_tainted(old)):
            for pod in self._pods.by_index(PODS_BY_NODE, new.metadata.name):
                self._queue.add(pod.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None and old is not None:
            self._waiting.pop(old.metadata.uid, None)
        if new is not None and new.spec.node_name and (old is None or not old.spec.node_name):
            node = self._nodes.get(ObjectKey("", new.spec.node_name))
            if node is not None and _is_tainted(node):
                self._queue.add(new.key)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Delete the pod if its toleration has ended. Raises ClientError."""
        pod = self._pods.get(key)
        if pod is None or pod.is_terminating:
            return Done()
        node = self._nodes.get(ObjectKey("", pod.spec.node_name))
        if node is None:
            return Done()
        now = self._now()
        uid = pod.metadata.uid
        observed = self._waiting.get(uid, now)
        due = eviction_time(node.spec.taints, pod.spec.tolerations, observed)
        if due == NEVER:
            if self._waiting.pop(uid, None) is not None:
                self._record(pod, f"Cancelling deletion of Pod {pod.key}")
            return Done()
        if due > now:
            self._waiting[uid] = observed
            return Requeue(due - now)
        await self._evict(pod, now)
        return Done()

    def _record(self, pod: Pod, message: str) -> None:
        self._recorder.record(pod, type="Normal", reason="TaintManagerEviction", message=message)

    async def _evict(self, pod: Pod, now: float) -> None:
        self._record(pod, f"Marking for deletion Pod {pod.key}")
        condition = disruption("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint", now)
        try:
            await patch_pod_status(self._client, pod, {"conditions": [condition]})
            await self._client.delete(PODS, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid)
        except (NotFound, Conflict):
            pass  # the pod is gone, or another pod has its name


def _is_tainted(node: Node) -> bool:
    return any(taint.effect == NO_EXECUTE for taint in node.spec.taints)

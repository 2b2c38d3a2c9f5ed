"""Nodes whose kubelet is silent become unreachable: Ready Unknown, taints, pods no longer ready.

A kubelet shows that it lives by renewing its Lease in `kube-node-lease`. Taints for other conditions and for
`spec.unschedulable` are kept here too. What leaves a tainted node is decided in `taint_eviction`.
Source: kube-controller-manager's node-lifecycle-controller.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from time import monotonic, time

import msgspec

from bridgehead.client import ApiClient, Done, EventRecorder, Outcome, Requeue, WorkQueue
from bridgehead.client.errors import NotFound, Unreachable
from bridgehead.objects.coordination import Lease
from bridgehead.objects.core import Node
from bridgehead.objects.kinds import LEASES, NODES, PODS
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.times import format_time

from ..conditions import find_condition
from ..pod_status import patch_pod_status
from ..shared import PODS_BY_NODE, Informers, node_of_pod
from .node_health import Heartbeat, next_heartbeat, plan_taints, plan_unknown_conditions

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
STARTUP_GRACE_SECONDS = 60.0  # for a node that never said anything


class NodeLifecycleController:
    """Runs until cancelled. Its keys are names of nodes; `now` is wall-clock time, `clock` only ever goes forward."""

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        recorder: EventRecorder,
        *,
        node_monitor_grace_period: float = 40.0,
        now: Callable[[], float] = time,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._grace_period = node_monitor_grace_period
        self._now = now
        self._clock = clock
        self._heartbeats: dict[str, Heartbeat] = {}
        self._fallen: set[str] = set()  # nodes that were ready, and whose pods are still to be marked
        self._nodes = informers.get(NODES)
        self._leases = informers.get(LEASES)
        self._pods = informers.get(PODS)
        self._pods.add_index(PODS_BY_NODE, node_of_pod)
        self._queue: WorkQueue[str] = WorkQueue("nodes")
        self._nodes.on_change(self._node_changed)
        self._leases.on_change(self._lease_changed)

    async def run(self) -> None:
        for informer in (self._nodes, self._leases, self._pods):
            await informer.wait_synced()
        await self._queue.run(self.reconcile)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        changed = new or old
        if changed is None:
            return
        name = changed.metadata.name
        if new is None:
            self._heartbeats.pop(name, None)
            self._fallen.discard(name)
            self._tell(changed, "RemovingNode", f"Node {name} event: Removing Node {name} from Controller")
        else:
            if old is None:
                self._tell(new, "RegisteredNode", f"Node {name} event: Registered Node {name} in Controller")
            elif old.is_ready and not new.is_ready:
                self._fallen.add(name)
                self._tell(new, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
            self._note(name)
        self._queue.add(name)

    def _tell(self, node: Node, reason: str, message: str) -> None:
        self._recorder.record(node, type="Normal", reason=reason, message=message)

    def _lease_changed(self, old: Lease | None, new: Lease | None) -> None:
        """Nearly every change is a healthy node's heartbeat, which calls for nothing else than taking note."""
        if new is None or new.metadata.namespace != LEASE_NAMESPACE:
            return
        name = new.metadata.name
        self._note(name)
        node = self._nodes.get(ObjectKey("", name))
        if node is not None and not node.is_ready:
            self._queue.add(name)

    def _note(self, name: str) -> None:
        node = self._nodes.get(ObjectKey("", name))
        if node is not None:
            lease = self._leases.get(ObjectKey(LEASE_NAMESPACE, name))
            renewed = lease.spec.renew_time if lease is not None else None
            self._heartbeats[name] = next_heartbeat(self._heartbeats.get(name), renewed, node, self._clock())

    async def reconcile(self, name: str) -> Outcome:
        """Judge one node and look again when its silence would be too long. Raises ClientError."""
        node = self._nodes.get(ObjectKey("", name))
        if node is None:
            return Done()
        if self._seconds_left(node) <= 0 and await self._is_silent(node):
            changed = plan_unknown_conditions(node, format_time(self._now()))
            if changed:
                log.warning("node %s has been silent for %.0f s", name, self._grace_period)
                patch = {"status": {"conditions": changed}}
                node = await self._client.patch(NODES, name, "", patch, type="strategic", subresource="status")
        await self._write_taints(node)
        # Of a node that is not ready but alive the kubelet goes on to say how its pods are: it is overruled once only.
        if not node.is_ready and (name in self._fallen or _is_unknown(node)):
            await self._mark_pods_not_ready(name)
        self._fallen.discard(name)
        left = self._seconds_left(node)
        return Requeue(left if left > 0 else self._grace_period)

    def _seconds_left(self, node: Node) -> float:
        heartbeat = self._heartbeats.get(node.metadata.name)
        if heartbeat is None:
            return self._grace_period
        is_new = heartbeat.renew_time is None and find_condition(node.status.conditions, "Ready") is None
        grace = max(self._grace_period, STARTUP_GRACE_SECONDS) if is_new else self._grace_period
        return heartbeat.seen_at + grace - self._clock()

    async def _is_silent(self, node: Node) -> bool:
        """Ask the API server itself: when it was us who were cut off, the node may well have gone on.

        While nobody can reach the API server no node can renew its lease; the time does not count against it.
        """
        name = node.metadata.name
        last = self._heartbeats.get(name)
        try:
            lease = await self._client.get(LEASES, name, LEASE_NAMESPACE)
        except NotFound:
            return True
        except Unreachable:
            if last is not None:
                self._heartbeats[name] = dataclasses.replace(last, seen_at=self._clock())
            raise
        self._heartbeats[name] = next_heartbeat(last, lease.spec.renew_time, node, self._clock())
        return self._heartbeats[name] == last

    async def _write_taints(self, node: Node) -> None:
        taints = plan_taints(node, format_time(self._now()))
        if taints is not None:
            patch = {
                "metadata": {"resourceVersion": node.metadata.resource_version},  # taints are written as a whole
                "spec": {"taints": msgspec.to_builtins(taints)},
            }
            await self._client.patch(NODES, node.metadata.name, "", patch)

    async def _mark_pods_not_ready(self, node_name: str) -> None:
        """Services must not send anybody to pods that nobody watches over."""
        for pod in self._pods.by_index(PODS_BY_NODE, node_name):
            if not pod.is_ready:
                continue
            condition = {"type": "Ready", "status": "False", "lastTransitionTime": format_time(self._now())}
            try:
                await patch_pod_status(self._client, pod, {"conditions": [condition]})
            except NotFound:
                continue
            self._recorder.record(pod, type="Warning", reason="NodeNotReady", message="Node is not ready")


def _is_unknown(node: Node) -> bool:
    ready = find_condition(node.status.conditions, "Ready")
    return ready is not None and ready.status == "Unknown"

"""The node lifecycle controller: a node with a silent kubelet gets Ready Unknown, taints, and not-ready pods.

A kubelet sends heartbeats by renewing its Lease in `kube-node-lease`. Silence counts only while heartbeats could have
arrived (`watch_clock`). When no node sends heartbeats any more, no pod is evicted or marked as not ready
(`zone_disruption`). The controller also writes the taints for other conditions and for `spec.unschedulable`. Eviction
itself is in `taint_eviction`. Source: kube-controller-manager's node-lifecycle-controller;
docs/decisions/0017-stalls.md explains the differences.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable
from dataclasses import replace
from time import monotonic, time

import msgspec

from bridgehead.client import ApiClient, Done, EventRecorder, Outcome, Requeue, WorkQueue
from bridgehead.client.errors import Conflict, NotFound
from bridgehead.controllers.pod_status import patch_pod_status
from bridgehead.controllers.shared_informers import PODS_BY_NODE, Informers, node_of_pod
from bridgehead.objects.coordination import Lease
from bridgehead.objects.core import Node
from bridgehead.objects.kinds import LEASES, NODES, PODS
from bridgehead.objects.meta import ObjectKey, find_condition
from bridgehead.objects.times import format_time

from .node_health import (
    Heartbeat,
    find_eviction_taint,
    has_eviction_taint,
    next_heartbeat,
    plan_taints,
    plan_unknown_conditions,
)
from .watch_clock import Clock, monitor_period
from .zone_disruption import Disruption, EvictionRateLimiter, find_disruption, zone_of

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
STARTUP_GRACE_SECONDS = 60.0  # for a node without any heartbeat so far
# After this part of the grace period a silent node counts as failed for the state of its zone: of nodes that fail
# together, the first must not be treated as the only one.
_SUSPECT = 0.5


class NodeLifecycleController:
    """Judges nodes by their heartbeats. `now` is wall-clock time, `clock` monotonic. Queue keys are node names."""

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        recorder: EventRecorder,
        *,
        watch_clock: Clock,
        node_monitor_grace_period: float = 40.0,
        now: Callable[[], float] = time,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._watch_clock = watch_clock
        self._grace_period = node_monitor_grace_period
        self._now = now
        self._clock = clock
        self._heartbeats: dict[str, Heartbeat] = {}
        self._silent: set[str] = set()
        self._unmarked: set[str] = set()  # nodes whose pods must still be marked as not ready
        self._disruption = Disruption()
        self._eviction_limiter = EvictionRateLimiter()
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
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._queue.run(self.reconcile))
            tasks.create_task(self._monitor())

    async def _monitor(self) -> None:
        while True:
            self.judge_nodes()
            await asyncio.sleep(monitor_period(self._grace_period))

    def judge_nodes(self) -> None:
        """Find the nodes that have been silent for too long, and the disruption of each zone."""
        now = self._watch_clock.now()
        nodes = list(self._nodes.items())
        quiet = {node.metadata.name: self._silence(node, now) for node in nodes}
        before = self._disruption
        known_nodes = (node for node in nodes if find_condition(node.status.conditions, "Ready") is not None)
        self._disruption = find_disruption((n, n.is_ready and quiet[n.metadata.name] < _SUSPECT) for n in known_nodes)
        if before.is_total and not self._disruption.is_total:
            log.info("some nodes send heartbeats again: the grace period starts anew for all")
            for name, heartbeat in self._heartbeats.items():
                self._heartbeats[name] = replace(heartbeat, seen_at=now)
            quiet = dict.fromkeys(quiet, 0.0)
        elif self._disruption.is_total and not before.is_total:
            log.warning("no node of the cluster is ready and sends heartbeats: no pod is evicted until one does")
        known, self._silent = self._silent, {name for name, share in quiet.items() if share >= 1}
        self._unmarked |= self._silent - known
        changed = quiet.keys() if self._disruption.states != before.states else self._silent - known
        for name in changed:
            self._queue.add(name)

    def _silence(self, node: Node, now: float) -> float:
        """Return the time since the node's last heartbeat, as a share of its grace period."""
        heartbeat = self._heartbeats.get(node.metadata.name)
        if heartbeat is None:
            return 0.0
        is_new = heartbeat.renew_time is None and find_condition(node.status.conditions, "Ready") is None
        grace = max(self._grace_period, STARTUP_GRACE_SECONDS) if is_new else self._grace_period
        return (now - heartbeat.seen_at) / grace

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        changed = new or old
        if changed is None:
            return
        name = changed.metadata.name
        if new is None:
            self._heartbeats.pop(name, None)
            self._silent.discard(name)
            self._unmarked.discard(name)
            self._record(changed, "RemovingNode", f"Node {name} event: Removing Node {name} from Controller")
        else:
            if old is None:
                self._record(new, "RegisteredNode", f"Node {name} event: Registered Node {name} in Controller")
            elif new.is_ready:
                self._unmarked.discard(name)
            elif old.is_ready:
                self._unmarked.add(name)
                self._record(new, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
            self._update_heartbeat(name)
        self._queue.add(name)

    def _record(self, node: Node, reason: str, message: str) -> None:
        self._recorder.record(node, type="Normal", reason=reason, message=message)

    def _lease_changed(self, old: Lease | None, new: Lease | None) -> None:
        """Record a heartbeat. The node is queued only if it is not ready."""
        if new is None or new.metadata.namespace != LEASE_NAMESPACE:
            return
        name = new.metadata.name
        self._update_heartbeat(name)
        node = self._nodes.get(ObjectKey("", name))
        if node is not None and not node.is_ready:
            self._queue.add(name)

    def _update_heartbeat(self, name: str) -> None:
        node = self._nodes.get(ObjectKey("", name))
        if node is not None:
            lease = self._leases.get(ObjectKey(LEASE_NAMESPACE, name))
            renewed = lease.spec.renew_time if lease is not None else None
            last = self._heartbeats.get(name)
            self._heartbeats[name] = next_heartbeat(last, renewed, node, self._watch_clock.now())
            if self._heartbeats[name] is not last:
                self._silent.discard(name)

    async def reconcile(self, name: str) -> Outcome:
        """Write a node's conditions, its taints and the readiness of its pods. Raises ClientError."""
        node = self._nodes.get(ObjectKey("", name))
        if node is None:
            return Done()
        if name in self._silent:
            changed = plan_unknown_conditions(node, format_time(self._now()))
            if changed:
                log.warning("node %s has been silent for %.0f s", name, self._grace_period)
                patch = {"status": {"conditions": changed}}
                node = await self._client.patch(NODES, name, "", patch, type="strategic", subresource="status")
        wait = self._eviction_wait(node)
        await self._write_taints(node, may_evict=wait == 0)
        if name in self._unmarked and self._must_mark_pods(node):
            await self._mark_pods_not_ready(name)
            self._unmarked.discard(name)
        return Requeue(wait) if 0 < wait < math.inf else Done()

    def _eviction_wait(self, node: Node) -> float:
        """Return the seconds until the node may have a NoExecute taint; inf for an unknown time."""
        if find_eviction_taint(node) is None:
            return 0.0
        if has_eviction_taint(node) and not self._disruption.is_total:
            return 0.0
        if _is_unknown(node) and node.metadata.name not in self._silent:
            return math.inf  # a heartbeat may still arrive
        zone = zone_of(node)
        return self._eviction_limiter.take(
            zone, node.metadata.name, self._disruption.eviction_rate(zone), self._clock()
        )

    def _must_mark_pods(self, node: Node) -> bool:
        """Whether Services must not send connections to the node's pods.

        A node that reports not ready is alive, and its kubelet reports their readiness again: it is overridden once.
        """
        if not _is_unknown(node):
            return not node.is_ready
        # If no node sends heartbeats, the pods of this one are as likely to serve as any others.
        return node.metadata.name in self._silent and not self._disruption.is_total

    async def _write_taints(self, node: Node, *, may_evict: bool) -> None:
        taints = plan_taints(node, format_time(self._now()), may_evict=may_evict)
        if taints is not None:
            patch = {
                "metadata": {
                    "resourceVersion": node.metadata.resource_version
                },  # the list of taints is replaced as a whole
                "spec": {"taints": msgspec.to_builtins(taints)},
            }
            # After a conflict, the informer reports the node that this one was too old for, which queues it again.
            with contextlib.suppress(Conflict):
                await self._client.patch(NODES, node.metadata.name, "", patch)

    async def _mark_pods_not_ready(self, node_name: str) -> None:
        """Set Ready to False on all ready pods of a node, so that Services send no connections to them."""
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

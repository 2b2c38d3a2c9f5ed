"""The scheduler: binds every pod without a node to one.

Started by `manager`; watches Nodes, Pods, Namespaces and, with `claim_binder`, claims and volumes. `placement` decides
on the sums in `cluster_state`. Decisions are made one after the other and count at once; bindings are sent
concurrently, so that 100 new pods cost 100 short decisions and one or two round trips. The pod with the highest
priority comes first if several wait. A pod with claims that wait is bound after them. An unschedulable pod waits for a
change of a node, a pod or a volume, and at least for its back-off.
Source: Kubernetes "Kubernetes Scheduler", `pkg/scheduler` (v1.36).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridgehead.backoff import delay_after
from bridgehead.client import ApiClient, EventRecorder, WorkQueue
from bridgehead.client.errors import ClientError, Conflict, NotFound
from bridgehead.client.workqueue import Done, Outcome, Requeue, Retry
from bridgehead.controllers.pod_status import patch_pod_status
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.core import Namespace, Node, Pod
from bridgehead.objects.kinds import NAMESPACES, NODES, PODS
from bridgehead.objects.meta import ObjectKey, find_condition
from bridgehead.objects.times import format_time

from .claim_binder import ClaimBinder
from .cluster_state import ClusterState, PodFacts
from .node_filters import NodeFilters, priority_of
from .placement import Placement, schedule_pod
from .preemption import Preemption
from .preemptor import Preemptor
from .refusal_texts import explain_everywhere, with_preemption
from .volume_binding import Binding as ClaimBinding
from .volume_binding import PodClaims

SCHEDULER_NAME: Final = "default-scheduler"
# Limit of concurrent bindings.
WORKERS: Final = 64
# Back-off of an unschedulable pod, in seconds.
FIRST_BACKOFF: Final = 1.0
LONGEST_BACKOFF: Final = 10.0
# Seconds after which an unschedulable pod is tried again without a known change.
LONGEST_WAIT: Final = 300.0
# Seconds until a pod whose claims are not bound is scheduled again, maybe to another node.
BIND_TIMEOUT: Final = 600.0


@dataclass
class _Attempts:
    """Number and time of the failed attempts to schedule a pod."""

    count: int
    last: float

    @property
    def backoff(self) -> float:
        return delay_after(self.count, FIRST_BACKOFF, LONGEST_BACKOFF)


@dataclass(frozen=True)
class _Binding:
    """The node of a pod, its claims that are being bound, and until when, in seconds since the epoch."""

    node_name: str
    claims: Sequence[ClaimBinding]
    deadline: float


class Scheduler:
    """Binds pods. `clock` returns seconds since the epoch."""

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        recorder: EventRecorder,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._nodes = informers.get(NODES)
        self._pods = informers.get(PODS)
        self._state = ClusterState()
        self._assumed: set[str] = set()  # uids of pods that count on a node before the informer shows their binding
        self._unschedulable: dict[ObjectKey, _Attempts] = {}
        self._queue: WorkQueue[ObjectKey] = WorkQueue("scheduler", rank=self._rank)
        self._preemptor = Preemptor(client, informers, recorder, clock)
        self._binding: dict[str, _Binding] = {}  # by uid: pods with a node that wait for their claims
        self._claims = ClaimBinder(client, informers, self._claims_changed, self._wake_unschedulable)
        self._namespaces: dict[str, dict[str, str]] = {}  # labels by name
        self._namespaces_informer = informers.get(NAMESPACES)
        self._namespaces_informer.on_change(self._namespace_changed)
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)

    async def run(self) -> None:
        for informer in (self._namespaces_informer, self._nodes, self._pods):
            await informer.wait_synced()
        await self._claims.wait_synced()
        await self._preemptor.wait_synced()
        await self._queue.run(self.reconcile, workers=WORKERS)

    # --- Handlers -----------------------------------------------------------------------------------

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                self._state.remove_node(old.metadata.name)
            return
        if old is not None and _is_same_for_pods(old, new):
            return
        self._state.set_node(new)
        self._wake_unschedulable()

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is not None:
            self._namespaces[new.metadata.name] = new.metadata.labels
        elif old is not None:
            self._namespaces.pop(old.metadata.name, None)
        if old is not None and new is not None and old.metadata.labels != new.metadata.labels:
            self._wake_unschedulable()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._forget(old)
        if new is None:
            return
        if new.is_finished:
            self._forget(new)
        elif new.spec.node_name:
            uid = new.metadata.uid
            self._assumed.discard(uid)
            self._preemptor.forget(uid)
            self._unschedulable.pop(new.key, None)
            if self._state.node_of(uid) != new.spec.node_name or old is None or _is_other_for_pods(old, new):
                self._state.add_pod(PodFacts.of(new), new.spec.node_name)
                if old is not None and old.spec.node_name and _is_other_for_pods(old, new):
                    self._wake_unschedulable()
        elif _is_responsible_for(new) and (old is None or _is_other_pod(old, new)):
            self._unschedulable.pop(new.key, None)
            self._preemptor.observe(new)
            self._queue.add(new.key)

    def _forget(self, pod: Pod) -> None:
        self._unschedulable.pop(pod.key, None)
        self._assumed.discard(pod.metadata.uid)
        self._preemptor.forget(pod.metadata.uid)
        self._binding.pop(pod.metadata.uid, None)
        if self._state.node_of(pod.metadata.uid):
            self._state.remove_pod(pod.metadata.uid)
            self._wake_unschedulable()

    def _claims_changed(self, key: ObjectKey) -> None:
        """A claim of a pod without a node has changed. The claim alone does not end a back-off."""
        if (attempts := self._unschedulable.get(key)) is not None:
            self._queue.add_after(key, attempts.last + attempts.backoff - self._clock())
        else:
            self._queue.add(key)

    def _rank(self, key: ObjectKey) -> int:
        pod = self._pods.get(key)
        return -priority_of(pod) if pod is not None else 0

    def _wake_unschedulable(self) -> None:
        now = self._clock()
        for key, attempts in self._unschedulable.items():
            self._queue.add_after(key, attempts.last + attempts.backoff - now)

    # --- Reconciling ------------------------------------------------------------------------------------

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Find a node for one pod and bind it. Raises ClientError."""
        pod = self._pods.get(key)
        if pod is None or pod.spec.node_name or not _is_responsible_for(pod):
            return Done()
        if pod.metadata.uid in self._binding:
            return await self._continue_binding(pod)
        if pod.metadata.uid in self._assumed:
            return Done()
        attempts = self._unschedulable.get(key)
        if attempts is not None and (wait := attempts.last + attempts.backoff - self._clock()) > 0:
            return Requeue(wait)
        facts = PodFacts.of(pod)
        claims = self._claims.claims_of(pod)
        placement, preemption = self._choose_node(facts, claims)
        if placement.node_name:
            # The pod counts on its node from here on: there was no await since the decision.
            self._state.add_pod(facts, placement.node_name)
            self._assumed.add(pod.metadata.uid)
            self._preemptor.forget(pod.metadata.uid)
            if claims.delayed:
                return await self._bind_claims(pod, claims, placement.node_name)
            return await self._bind(pod, placement.node_name)
        self._unschedulable[key] = _Attempts(attempts.count + 1 if attempts else 1, self._clock())
        message = with_preemption(placement.message, preemption.message)
        self._recorder.record(pod, type="Warning", reason="FailedScheduling", message=message)
        await self._preemptor.carry_out(pod, preemption)
        await self._write_unschedulable(pod, message)
        return Requeue(LONGEST_WAIT)

    def _choose_node(self, facts: PodFacts, claims: PodClaims) -> tuple[Placement, Preemption]:
        """Choose a node, or pods to preempt."""
        if claims.blocked:
            return Placement(message=explain_everywhere(claims.blocked, len(self._state.nodes()))), Preemption()
        has_claims = claims.volumes or claims.delayed
        volumes = self._claims.filter(claims) if has_claims else None
        filters = NodeFilters(
            facts,
            self._state.nodes(),
            self._namespaces,
            volumes=volumes,
            exclusive=claims.exclusive,
            nominations=self._preemptor.nominations,
        )
        placement = schedule_pod(filters, self._preemptor.nominated_node(facts.pod.metadata.uid))
        if placement.node_name or not placement.refused:
            return placement, Preemption()
        return placement, self._preemptor.plan(filters, placement.refused)

    async def _bind_claims(self, pod: Pod, claims: PodClaims, node_name: str) -> Outcome:
        """Have the claims bound that waited for the pod's node. Raises ClientError."""
        node = self._state.nodes()[node_name].node
        bindings = self._claims.reserve(claims, node) if node is not None else ()
        self._binding[pod.metadata.uid] = _Binding(node_name, bindings, self._clock() + BIND_TIMEOUT)
        try:
            await self._claims.write(bindings, node_name)
        except ClientError as error:
            self._release(pod)
            return Retry(str(error))
        return await self._continue_binding(pod)

    async def _continue_binding(self, pod: Pod) -> Outcome:
        """Bind a pod to its node if all its claims are bound."""
        binding = self._binding.get(pod.metadata.uid)
        if binding is None:
            return Done()  # the pod was removed while its claims were written
        progress = self._claims.progress(binding.claims, binding.node_name)
        if progress:
            del self._binding[pod.metadata.uid]
            return await self._bind(pod, binding.node_name)
        remaining = binding.deadline - self._clock()
        if progress is None or remaining <= 0:
            self._release(pod)
            return Retry("the claims of the pod were not bound")
        return Requeue(remaining)

    def _release(self, pod: Pod) -> None:
        """Stop counting a pod on the node that was chosen for it."""
        self._binding.pop(pod.metadata.uid, None)
        if pod.metadata.uid in self._assumed:
            self._assumed.discard(pod.metadata.uid)
            self._state.remove_pod(pod.metadata.uid)
            self._preemptor.observe(pod)

    async def _bind(self, pod: Pod, node_name: str) -> Outcome:
        metadata = pod.metadata
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
        }
        path = PODS.path(metadata.namespace, metadata.name, "binding")
        try:
            await self._client.request("POST", path, json=binding)
        except NotFound:
            self._forget(pod)
            return Done()
        except ClientError as error:
            # The informer may have shown a binding meanwhile, by this or another scheduler, which then counts.
            self._release(pod)
            if not isinstance(error, Conflict):
                self._recorder.record(
                    pod, type="Warning", reason="FailedScheduling", message=f"binding rejected: {error}"
                )
            return Retry(str(error))
        message = f"Successfully assigned {pod.key} to {node_name}"
        self._recorder.record(pod, type="Normal", reason="Scheduled", message=message)
        return Done()

    async def _write_unschedulable(self, pod: Pod, message: str) -> None:
        """Set the condition PodScheduled to False with the message, and the nomination, unless they are so already."""
        current = find_condition(pod.status.conditions, "PodScheduled")
        nominated = self._preemptor.nominated_node(pod.metadata.uid)
        is_written = current is not None and (current.status, current.message) == ("False", message)
        if is_written and pod.status.nominated_node_name == nominated:
            return
        condition: dict[str, Any] = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
        }
        if current is None or current.status != "False":
            condition["lastTransitionTime"] = format_time(self._clock())
        try:
            status = {"conditions": [condition], "nominatedNodeName": nominated or None}
            await patch_pod_status(self._client, pod, status)
        except (NotFound, Conflict):
            return  # deleted, bound or replaced meanwhile; the informer will show it


def _is_responsible_for(pod: Pod) -> bool:
    """Whether this scheduler is responsible for `pod`. A pod with scheduling gates waits for their removal."""
    if pod.spec.scheduling_gates or pod.is_terminating or pod.is_finished:
        return False
    return pod.spec.scheduler_name in (SCHEDULER_NAME, "")


def _is_same_for_pods(old: Node, new: Node) -> bool:
    """Whether no field of a node has changed on which scheduling depends, as with a heartbeat."""
    return (
        old.metadata.labels == new.metadata.labels
        and old.spec == new.spec
        and old.status.allocatable == new.status.allocatable
    )


def _is_other_pod(old: Pod, new: Pod) -> bool:
    """Whether a pod without a node is another one, or has changed so that a node may fit it now."""
    return old.metadata.uid != new.metadata.uid or old.spec != new.spec or old.metadata.labels != new.metadata.labels


def _is_other_for_pods(old: Pod, new: Pod) -> bool:
    """Whether a field of a bound pod has changed on which the scheduling of other pods depends."""
    return (
        old.metadata.labels != new.metadata.labels or old.spec != new.spec or old.is_terminating != new.is_terminating
    )

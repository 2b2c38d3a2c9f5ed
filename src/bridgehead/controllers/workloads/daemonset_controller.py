"""The DaemonSet controller: one pod on every eligible node, updated node by node.

Started by `manager`; watches DaemonSets, ControllerRevisions, Nodes and Pods. `daemon_plan` decides about pods,
`history` about revisions.
Source: Kubernetes "DaemonSet", `pkg/controller/daemon` (v1.36).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bridgehead.backoff import KeyedBackoff
from bridgehead.client import ApiClient, EventRecorder, WorkQueue
from bridgehead.client.errors import ClientError
from bridgehead.client.workqueue import Done, Outcome, Requeue, Retry
from bridgehead.controllers.adoption import Claimer, adopters
from bridgehead.controllers.conditions import status_patch
from bridgehead.controllers.read_your_writes import Latest
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.apps import DaemonSet, DaemonSetStatus
from bridgehead.objects.core import Node, Pod
from bridgehead.objects.kinds import DAEMON_SETS, NODES, PODS
from bridgehead.objects.meta import LabelSelector, ObjectKey, PodTemplate
from bridgehead.objects.selectors import compile_selector

from .availability import next_availability
from .bursts import BURST
from .daemon_plan import (
    HASH_LABEL,
    DaemonPlan,
    Eligibility,
    compute_status,
    daemon_template,
    plan_nodes,
    plan_update,
    pods_by_node,
    template_for_node,
)
from .expectations import EXPIRY, Expectations, observe_pod_change
from .owned import OwnedIndex
from .pod_control import PodControl, is_namespace_terminating, slow_start
from .revisions import Revisions

WORKERS: Final = 4
# Back-off of the replacement of failed pods, in seconds.
FIRST_BACKOFF: Final = 1.0
LONGEST_BACKOFF: Final = 900.0

_COUNTS = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")


@dataclass(frozen=True)
class _Revision:
    """Values derived from one generation of a DaemonSet and its revision's hash, computed once for all nodes."""

    generation: int
    hash: str
    template: PodTemplate
    eligibility: Eligibility


class DaemonSetController:
    """Creates and deletes daemon pods. `clock` returns seconds since the epoch."""

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
        self._daemon_sets = informers.get(DAEMON_SETS)
        self._nodes = informers.get(NODES)
        self._pods = informers.get(PODS)
        self._control = PodControl(client, recorder, DAEMON_SETS)
        self._claimer = Claimer(client, DAEMON_SETS, PODS)
        self._expectations = Expectations(clock)
        self._queue: WorkQueue[ObjectKey] = WorkQueue("daemonsets")
        self._owned = OwnedIndex(self._pods)
        self._latest = Latest(self._daemon_sets)
        self._history = Revisions(client, informers, DAEMON_SETS, HASH_LABEL, self._latest, self._queue.add)
        self._revisions: dict[str, _Revision] = {}
        self._failures = FailedPods(clock)
        self._daemon_sets.on_change(self._daemon_set_changed)
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)

    async def run(self) -> None:
        for informer in (self._daemon_sets, self._nodes, self._pods):
            await informer.wait_synced()
        await self._history.wait_synced()
        await self._queue.run(self.reconcile, workers=WORKERS)

    # --- Handlers --------------------------------------------------------------------------------

    def _daemon_set_changed(self, old: DaemonSet | None, new: DaemonSet | None) -> None:
        if new is None and old is not None:
            # A new DaemonSet of the same name must not wait for the expectations of the old one.
            self._expectations.forget(old.key)
            self._revisions.pop(old.metadata.uid, None)
            self._failures.forget(old.metadata.uid)
        if (changed := new or old) is not None:
            self._queue.add(changed.key)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        """Queue the DaemonSets for a change of labels or taints, and for new and deleted nodes, not for heartbeats."""
        if (
            old is not None
            and new is not None
            and old.metadata.labels == new.metadata.labels
            and old.spec.taints == new.spec.taints
        ):
            return
        for daemon_set in self._daemon_sets.items():
            self._queue.add(daemon_set.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for owner in observe_pod_change(self._expectations, DAEMON_SETS, old, new):
            self._queue.add(owner)
        for adopter in adopters(self._daemon_sets.items(), old, new):
            self._queue.add(adopter)

    # --- Reconciling ------------------------------------------------------------------------------------

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Take the next step of one DaemonSet. Raises ClientError."""
        daemon_set = self._latest.get(key)
        if daemon_set is None:
            self._expectations.forget(key)
            return Done()
        if daemon_set.spec.selector == LabelSelector():
            message = "This daemon set is selecting all pods. A non-empty selector is required."
            self._recorder.record(daemon_set, type="Warning", reason="SelectingAll", message=message)
            return Done()
        if daemon_set.metadata.deletion_timestamp is not None:
            return Done()
        history = await self._history.read(daemon_set)
        current = await self._history.ensure_current(daemon_set, history)
        if current is None:
            return Retry("another object has the new revision's name")
        revision = self._revision(daemon_set, current.metadata.labels[HASH_LABEL])
        nodes = sorted(self._nodes.items(), key=lambda node: node.metadata.name)
        pods = await self._pods_of(daemon_set)
        if not self._expectations.met(key):
            await self._write_status(daemon_set, revision, nodes, pods, observed=False)
            return Requeue(EXPIRY)
        now = self._clock()
        placed = pods_by_node(pods)
        plan = plan_nodes(daemon_set, revision.hash, nodes, revision.eligibility, placed, now)
        plan, delay = self._postpone_failed(daemon_set, plan)
        failure = await self._carry_out(daemon_set, revision, plan)
        is_rolling = daemon_set.spec.update_strategy.type == "RollingUpdate"
        if failure is None and is_rolling and self._expectations.met(key):
            step = plan_update(daemon_set, revision.hash, nodes, revision.eligibility, placed, now)
            failure = await self._carry_out(daemon_set, revision, step)
        live = {pod.metadata.labels.get(HASH_LABEL, "") for pod in pods}
        await self._history.clean_up(daemon_set, history.old, lambda one: one.metadata.labels.get(HASH_LABEL) in live)
        await self._write_status(daemon_set, revision, nodes, pods, observed=True)
        if failure is not None:
            return Retry(str(failure))
        waits = (delay, next_availability(pods, daemon_set.spec.min_ready_seconds, self._clock()))
        soonest = min((wait for wait in waits if wait is not None), default=None)
        return Done() if soonest is None else Requeue(soonest)

    async def _pods_of(self, daemon_set: DaemonSet) -> list[Pod]:
        selector = compile_selector(daemon_set.spec.selector)
        return await self._claimer.claim(daemon_set, selector, self._owned.candidates(daemon_set))

    def _revision(self, daemon_set: DaemonSet, revision_hash: str) -> _Revision:
        known = self._revisions.get(daemon_set.metadata.uid)
        if known is None or (known.generation, known.hash) != (daemon_set.metadata.generation, revision_hash):
            template = daemon_template(daemon_set, revision_hash)
            known = _Revision(daemon_set.metadata.generation, revision_hash, template, Eligibility(template))
            self._revisions[daemon_set.metadata.uid] = known
        return known

    # --- Pods and status --------------------------------------------------------------------------------

    def _postpone_failed(self, daemon_set: DaemonSet, plan: DaemonPlan) -> tuple[DaemonPlan, float | None]:
        """Return the plan without failed pods in back-off, and the seconds until the next one may be replaced."""
        waiting: dict[str, float] = {}
        for pod in plan.failed:
            wait = self._failures.wait(daemon_set.metadata.uid, pod)
            if wait > 0:
                waiting[pod.metadata.uid] = wait
                continue
            message = f"Found failed daemon pod {pod.key} on node {pod.spec.node_name}, will try to kill it"
            self._recorder.record(daemon_set, type="Warning", reason="FailedDaemonPod", message=message)
        for pod in plan.succeeded:
            message = f"Found succeeded daemon pod {pod.key} on node {pod.spec.node_name}, will try to delete it"
            self._recorder.record(daemon_set, type="Normal", reason="SucceededDaemonPod", message=message)
        if not waiting:
            return plan, None
        delete = tuple(pod for pod in plan.delete if pod.metadata.uid not in waiting)
        return DaemonPlan(plan.create_on, delete, plan.failed, plan.succeeded), min(waiting.values())

    async def _carry_out(self, daemon_set: DaemonSet, revision: _Revision, plan: DaemonPlan) -> ClientError | None:
        """Create and delete pods concurrently; return the first error."""
        key = daemon_set.key
        create, delete = plan.create_on[:BURST], plan.delete[:BURST]
        self._expectations.expect(key, creations=len(create), deletions=[pod.metadata.uid for pod in delete])

        async def create_on(index: int) -> None:
            await self._control.create(daemon_set, template_for_node(revision.template, create[index]))

        successes, failure = await slow_start(len(create), create_on)
        self._expectations.created(key, len(create) - successes)
        if failure is not None and is_namespace_terminating(failure):
            failure = None
        not_deleted = await self._control.delete_all(
            daemon_set, delete, lambda pod: self._expectations.deleted(key, pod.metadata.uid)
        )
        return failure or not_deleted

    async def _write_status(
        self, daemon_set: DaemonSet, revision: _Revision, nodes: Sequence[Node], pods: Sequence[Pod], *, observed: bool
    ) -> None:
        wanted: DaemonSetStatus = compute_status(
            daemon_set,
            revision.hash,
            nodes,
            revision.eligibility,
            pods_by_node(pods),
            self._clock(),
            observed=observed,
        )
        patch = status_patch(daemon_set.status, wanted, always=_COUNTS)
        if patch is not None:
            await self._latest.patch_status(self._client, daemon_set, {"status": patch})


class FailedPods:
    """Back-off for the replacement of failed pods, by owner and node."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._nodes: dict[str, KeyedBackoff[str]] = {}  # by the owner's uid

    def wait(self, owner: str, pod: Pod) -> float:
        """Return the seconds until `pod` may be replaced. 0: now, and the next one must wait longer."""
        now = self._clock()
        nodes = self._nodes.setdefault(owner, KeyedBackoff(FIRST_BACKOFF, LONGEST_BACKOFF))
        nodes.prune(now)
        remaining = nodes.remaining(pod.spec.node_name, now)
        if not remaining:
            nodes.record(pod.spec.node_name, now, now)
        return remaining

    def forget(self, owner: str) -> None:
        self._nodes.pop(owner, None)

"""The DaemonSet controller: one pod on every eligible node, updated node by node.

Started by `manager`; watches DaemonSets, ControllerRevisions, Nodes and Pods. `daemon_plan` decides about pods,
`daemon_history` about revisions.
Source: Kubernetes "DaemonSet", `pkg/controller/daemon` (v1.36).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridgehead.backoff import KeyedBackoff
from bridgehead.client import ApiClient, EventRecorder, WorkQueue
from bridgehead.client.errors import AlreadyExists, ClientError, NotFound
from bridgehead.client.workqueue import Done, Outcome, Requeue, Retry
from bridgehead.objects.apps import ControllerRevision, DaemonSet, DaemonSetStatus
from bridgehead.objects.core import Node, Pod
from bridgehead.objects.kinds import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS
from bridgehead.objects.meta import LabelSelector, ObjectKey, PodTemplate
from bridgehead.objects.selectors import compile_selector

from ..claims import Claimer, adopters
from ..conditions import status_patch
from ..latest import Latest
from ..shared import Informers
from .availability import next_availability
from .daemon_history import History, new_revision, sort_history, surplus_revisions
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
from .hashes import template_hash
from .owned import OwnedIndex
from .pod_control import BURST, PodControl, is_namespace_terminating, slow_start

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
        self._history = informers.get(CONTROLLER_REVISIONS)
        self._history_claimer = Claimer(client, DAEMON_SETS, CONTROLLER_REVISIONS)
        self._owned_history = OwnedIndex(self._history)
        self._expectations = Expectations(clock)
        self._queue: WorkQueue[ObjectKey] = WorkQueue("daemonsets")
        self._owned = OwnedIndex(self._pods)
        self._latest = Latest(self._daemon_sets)
        self._revisions: dict[str, _Revision] = {}
        self._failures = FailedPods(clock)
        self._daemon_sets.on_change(self._daemon_set_changed)
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)
        self._history.on_change(self._history_changed)

    async def run(self) -> None:
        for informer in (self._daemon_sets, self._history, self._nodes, self._pods):
            await informer.wait_synced()
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

    def _history_changed(self, old: ControllerRevision | None, new: ControllerRevision | None) -> None:
        """Queue the owner of a revision that was deleted or changed: it must have one for its template."""
        owner = old.metadata.controller if old is not None else None
        if old is not None and owner is not None and owner.kind == DAEMON_SETS.name:
            self._queue.add(ObjectKey(old.metadata.namespace, owner.name))

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
        history = await self._read_history(daemon_set)
        current = await self._ensure_current(daemon_set, history)
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
        await self._clean_up_history(daemon_set, history, pods)
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

    # --- History ----------------------------------------------------------------------------------------

    async def _read_history(self, daemon_set: DaemonSet) -> History:
        selector = compile_selector(daemon_set.spec.selector)
        candidates = self._owned_history.candidates(daemon_set)
        return sort_history(daemon_set, await self._history_claimer.claim(daemon_set, selector, candidates))

    async def _ensure_current(self, daemon_set: DaemonSet, history: History) -> ControllerRevision | None:
        """Return the revision of the present template with the highest number; None when its hash must change."""
        current, meta = history.current, daemon_set.metadata
        if current is None:
            revision_hash = template_hash(daemon_set.spec.template, daemon_set.status.collision_count)
            wanted = new_revision(daemon_set, history.number, revision_hash)
            try:
                return await self._client.create(CONTROLLER_REVISIONS, wanted)
            except AlreadyExists:
                return await self._resolve_name_collision(daemon_set, wanted["metadata"]["name"])
        patch: dict[str, Any] = {}
        if current.revision < history.number:
            patch["revision"] = history.number
        if HASH_LABEL not in current.metadata.labels:
            patch["metadata"] = {"labels": {HASH_LABEL: current.metadata.name}}
        if not patch:
            return current
        return await self._client.patch(CONTROLLER_REVISIONS, current.metadata.name, meta.namespace, patch)

    async def _resolve_name_collision(self, daemon_set: DaemonSet, name: str) -> ControllerRevision | None:
        """Return the revision of this name if it has the present template; else increment the collision count."""
        try:
            found = await self._client.get(CONTROLLER_REVISIONS, name, daemon_set.metadata.namespace)
        except NotFound:
            return None
        owner = found.metadata.controller
        if owner is not None and owner.uid == daemon_set.metadata.uid and sort_history(daemon_set, [found]).current:
            return found
        count = (daemon_set.status.collision_count or 0) + 1
        await self._latest.patch_status(self._client, daemon_set, {"status": {"collisionCount": count}})
        return None

    async def _clean_up_history(self, daemon_set: DaemonSet, history: History, pods: Sequence[Pod]) -> None:
        live = {pod.metadata.labels.get(HASH_LABEL, "") for pod in pods}
        for revision in surplus_revisions(daemon_set, history.old, live):
            meta = revision.metadata
            with contextlib.suppress(NotFound):
                await self._client.delete(CONTROLLER_REVISIONS, meta.name, meta.namespace, uid=meta.uid)

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

"""The StatefulSet controller: pods with stable names and claims, created and updated in order.

Started by `manager`; watches StatefulSets, ControllerRevisions, Pods and PersistentVolumeClaims. `stateful_plan`
decides about pods. The names of pods are known before, so that a step from an outdated view does no harm: a creation
fails, and a deletion names the pod's uid.
Source: Kubernetes "StatefulSets", `pkg/controller/statefulset` (v1.36).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from bridgehead.client import ApiClient, EventRecorder, WorkQueue
from bridgehead.client.workqueue import Done, Outcome, Requeue, Retry
from bridgehead.controllers.adoption import Claimer, adopters
from bridgehead.controllers.conditions import status_patch
from bridgehead.controllers.read_your_writes import Latest
from bridgehead.controllers.shared_informers import Informers
from bridgehead.controllers.workloads.availability import next_availability
from bridgehead.controllers.workloads.bursts import BURST, Bursts
from bridgehead.controllers.workloads.expectations import owner_of
from bridgehead.controllers.workloads.owned import OwnedIndex
from bridgehead.controllers.workloads.pod_control import all_of, is_namespace_terminating, slow_start
from bridgehead.controllers.workloads.revisions import Revisions
from bridgehead.objects.apps import ControllerRevision, StatefulSet
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.selectors import compile_selector
from bridgehead.objects.storage import PersistentVolumeClaim

from .identity import HASH_LABEL, ordinal_of, revision_of
from .pods_and_claims import ClaimBeingDeleted, PodsAndClaims
from .stateful_plan import StatefulPlan, plan_step, uses_old_revision
from .stateful_status import compute_status

WORKERS: Final = 4
_STALE_CLAIM: Final = "a claim of an earlier pod is still to be deleted"
# Seconds until a pod whose claim is being deleted is tried again. The deletion of the claim is an event, too.
_CLAIM_WAIT: Final = 10.0
_COUNTS = ("replicas", "availableReplicas")

_Step = Callable[[], Awaitable[None]]


class StatefulSetController:
    """Creates and deletes the pods of StatefulSets. `clock` returns seconds since the epoch."""

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        recorder: EventRecorder,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._clock = clock
        self._sets = informers.get(STATEFUL_SETS)
        self._pods = informers.get(PODS)
        self._claims = informers.get(PERSISTENT_VOLUME_CLAIMS)
        self._control = PodsAndClaims(client, recorder, self._claims)
        self._claimer = Claimer(client, STATEFUL_SETS, PODS)
        self._owned = OwnedIndex(self._pods)
        self._bursts = Bursts(clock)
        self._queue: WorkQueue[ObjectKey] = WorkQueue("statefulsets")
        self._latest = Latest(self._sets)
        self._history = Revisions(client, informers, STATEFUL_SETS, HASH_LABEL, self._latest, self._queue.add)
        self._sets.on_change(self._set_changed)
        self._pods.on_change(self._pod_changed)
        self._claims.on_change(self._claim_changed)

    async def run(self) -> None:
        await self._sets.wait_synced()
        await self._pods.wait_synced()
        await self._claims.wait_synced()
        await self._history.wait_synced()
        await self._queue.run(self.reconcile, workers=WORKERS)

    # --- Handlers --------------------------------------------------------------------------------

    def _set_changed(self, old: StatefulSet | None, new: StatefulSet | None) -> None:
        if (changed := new or old) is not None:
            self._queue.add(changed.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is not None and (owner := owner_of(STATEFUL_SETS, pod)) is not None:
                self._queue.add(owner)
        for adopter in adopters(self._sets.items(), old, new):
            self._queue.add(adopter)

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        """Queue the StatefulSet of a claim that is gone: a pod may wait for its successor."""
        if new is None and old is not None:
            for one in self._sets.items():
                if one.metadata.namespace == old.metadata.namespace and one.spec.volume_claim_templates:
                    self._queue.add(one.key)

    # --- Reconciling ------------------------------------------------------------------------------------

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Take the next step of one StatefulSet. Raises ClientError."""
        stateful_set = self._latest.get(key)
        if stateful_set is None:
            self._bursts.forget(key)
            return Done()
        selector = compile_selector(stateful_set.spec.selector)
        named = [pod for pod in self._owned.candidates(stateful_set) if ordinal_of(stateful_set, pod) is not None]
        pods = await self._claimer.claim(stateful_set, selector, named)
        history = await self._history.read(stateful_set)
        update = await self._history.ensure_current(stateful_set, history)
        if update is None:
            return Retry("another object has the new revision's name")
        found = (one for one in history.old if one.metadata.name == stateful_set.status.current_revision)
        current = next(found, update)
        now = self._clock()
        failure: Exception | None = None
        if stateful_set.metadata.deletion_timestamp is None:
            plan = plan_step(stateful_set, pods, update.metadata.name, now, self._bursts.room(key))
            failure = await self._carry_out(stateful_set, plan, current, update)
        live = {current.metadata.name, update.metadata.name, *map(revision_of, pods)}
        dead = [one for one in history.old if one.metadata.name not in live]
        await self._history.clean_up(stateful_set, dead, lambda one: False)
        await self._write_status(stateful_set, pods, current, update, now)
        if isinstance(failure, ClaimBeingDeleted):
            return Requeue(_CLAIM_WAIT)
        if failure is not None:
            return Retry(str(failure))
        waits = (self._bursts.wait(key), next_availability(pods, stateful_set.spec.min_ready_seconds, self._clock()))
        soonest = min((wait for wait in waits if wait is not None), default=None)
        return Done() if soonest is None else Requeue(soonest)

    async def _carry_out(
        self, stateful_set: StatefulSet, plan: StatefulPlan, current: ControllerRevision, update: ControllerRevision
    ) -> Exception | None:
        """Do what is planned; return the first error. Later parts of a plan do not depend on earlier ones."""
        control = self._control

        async def create(index: int) -> None:
            ordinal = plan.create[index]
            revision = current if uses_old_revision(stateful_set, ordinal) else update
            if not await control.create(stateful_set, revision, ordinal):
                raise ClaimBeingDeleted(_STALE_CLAIM)

        def of_pods(pods: Sequence[Pod], change: Callable[[Pod, int], Awaitable[None]]) -> list[_Step]:
            numbered = ((pod, ordinal_of(stateful_set, pod)) for pod in pods)
            return [partial(change, pod, ordinal) for pod, ordinal in numbered if ordinal is not None]

        steps: list[_Step] = [partial(control.complete, stateful_set, ordinal) for ordinal in plan.complete]
        steps += of_pods(plan.correct, partial(control.correct, stateful_set))
        steps += of_pods(plan.condemned, partial(control.retain, stateful_set, is_condemned=True))
        failure = await all_of(steps)
        if failure is None:
            # A pod goes only after its claims have their owners.
            failure = await all_of([partial(control.delete, stateful_set, pod) for pod in plan.delete[:BURST]])
        began = self._clock()
        try:
            created, not_created = await slow_start(len(plan.create), create)
        except ClaimBeingDeleted as error:
            return failure or error
        self._bursts.record(stateful_set.key, created, began)
        if not_created is not None and is_namespace_terminating(not_created):
            not_created = None
        return failure or not_created

    async def _write_status(
        self,
        stateful_set: StatefulSet,
        pods: Sequence[Pod],
        current: ControllerRevision,
        update: ControllerRevision,
        now: float,
    ) -> None:
        wanted = compute_status(stateful_set, pods, current.metadata.name, update.metadata.name, now)
        patch = status_patch(stateful_set.status, wanted, always=_COUNTS)
        if patch is not None:
            await self._latest.patch_status(self._client, stateful_set, {"status": patch})

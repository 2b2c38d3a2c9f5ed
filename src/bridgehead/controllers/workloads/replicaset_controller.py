"""The ReplicaSet controller: keeps the wanted number of pods of a template.

Started by `manager`; watches ReplicaSets and Pods. Source: Kubernetes "ReplicaSet", `pkg/controller/replicaset`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from bridgehead.client import ApiClient, EventRecorder, Informer, WorkQueue
from bridgehead.client.errors import ClientError
from bridgehead.client.workqueue import Done, Outcome, Requeue, Retry
from bridgehead.controllers.adoption import Claimer, adopters
from bridgehead.controllers.conditions import REPLICA_FAILURE, status_patch, with_condition, without_condition
from bridgehead.controllers.read_your_writes import Latest
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.apps import ReplicaSet, ReplicaSetStatus
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, Kind
from bridgehead.objects.meta import Condition, ObjectKey
from bridgehead.objects.selectors import Selector, compile_selector
from bridgehead.objects.times import format_time

from .availability import is_active, is_available, next_availability
from .bursts import BURST, Bursts
from .deletion_order import choose_victims
from .expectations import EXPIRY, Expectations, observe_pod_change
from .owned import OwnedIndex
from .pod_control import PodControl, is_namespace_terminating, slow_start

WORKERS: Final = 8


def compute_status(
    replica_set: ReplicaSet,
    pods: Sequence[Pod],
    terminating: int | None,
    failure: ClientError | None,
    shrinking: bool,
    now: float,
) -> ReplicaSetStatus:
    """Compute the status from the active `pods` and the number of `terminating` ones (None: not shown).

    `failure`: error of creating or, if `shrinking`, deleting pods.
    """
    template_labels = replica_set.spec.template.metadata.labels.items()
    conditions = replica_set.status.conditions
    if failure is None:
        conditions = without_condition(conditions, REPLICA_FAILURE)
    else:
        wanted = Condition(
            type=REPLICA_FAILURE,
            status="True",
            reason="FailedDelete" if shrinking else "FailedCreate",
            message=str(failure),
            last_transition_time=format_time(now),
        )
        conditions = with_condition(conditions, wanted)
    return ReplicaSetStatus(
        observed_generation=replica_set.metadata.generation,
        replicas=len(pods),
        fully_labeled_replicas=sum(template_labels <= pod.metadata.labels.items() for pod in pods),
        ready_replicas=sum(pod.is_ready for pod in pods),
        available_replicas=sum(is_available(pod, replica_set.spec.min_ready_seconds, now) for pod in pods),
        terminating_replicas=terminating,
        conditions=conditions,
    )


class ReplicaSetController:
    """Creates and deletes pods. `clock` returns seconds since the epoch.

    A ReplicationController is an older form of the same: its controller is this one with another `kind`.
    """

    kind: Kind[Any] = REPLICA_SETS

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        recorder: EventRecorder,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._clock = clock
        self._replica_sets: Informer[Any] = informers.get(self.kind)
        self._pods = informers.get(PODS)
        self._control = PodControl(client, recorder, self.kind)
        self._claimer = Claimer(client, self.kind, PODS)
        self._expectations = Expectations(clock)
        self._bursts = Bursts(clock)
        self._queue: WorkQueue[ObjectKey] = WorkQueue(self.kind.plural)
        self._owned = OwnedIndex(self._pods)
        self._siblings = OwnedIndex(self._replica_sets)
        self._latest = Latest(self._replica_sets)
        self._replica_sets.on_change(self._replica_set_changed)
        self._pods.on_change(self._pod_changed)

    async def run(self) -> None:
        await self._replica_sets.wait_synced()
        await self._pods.wait_synced()
        await self._queue.run(self.reconcile, workers=WORKERS)

    # --- Handlers --------------------------------------------------------------------------------

    def _replica_set_changed(self, old: ReplicaSet | None, new: ReplicaSet | None) -> None:
        if new is None and old is not None:
            # A new replica set of the same name must not wait for the expectations of the old one.
            self._expectations.forget(old.key)
        if (changed := new or old) is not None:
            self._queue.add(changed.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for owner in observe_pod_change(self._expectations, self.kind, old, new):
            self._queue.add(owner)
        for adopter in adopters(self._replica_sets.items(), old, new):
            self._queue.add(adopter)

    # --- Reconciling ------------------------------------------------------------------------------------

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Create or delete pods of one replica set, and write its status. Raises ClientError."""
        replica_set = self._latest.get(key)
        if replica_set is None:
            self._expectations.forget(key)
            self._bursts.forget(key)
            return Done()
        may_act = self._expectations.met(key)
        selector = compile_selector(replica_set.spec.selector)
        candidates = filter(is_active, self._owned.candidates(replica_set))
        pods = await self._claimer.claim(replica_set, selector, candidates)
        surplus = len(pods) - replica_set.spec.replicas
        failure: ClientError | None = None
        if may_act and surplus and replica_set.metadata.deletion_timestamp is None:
            failure = await (
                self._shrink(replica_set, pods, surplus) if surplus > 0 else self._grow(replica_set, -surplus)
            )
        terminating = self._count_terminating(replica_set, selector)
        status = compute_status(replica_set, pods, terminating, failure, surplus > 0, self._clock())
        await self._write_status(replica_set, status)
        if failure is not None:
            return Retry(str(failure))
        if not may_act:
            return Requeue(EXPIRY)
        waits = (self._bursts.wait(key), next_availability(pods, replica_set.spec.min_ready_seconds, self._clock()))
        soonest = min((wait for wait in waits if wait is not None), default=None)
        return Done() if soonest is None else Requeue(soonest)

    async def _grow(self, replica_set: ReplicaSet, missing: int) -> ClientError | None:
        count = min(missing, self._bursts.room(replica_set.key))
        self._expectations.expect(replica_set.key, creations=count)

        async def create(_index: int) -> None:
            await self._control.create(replica_set, replica_set.spec.template)

        began = self._clock()
        successes, failure = await slow_start(count, create)
        self._expectations.created(replica_set.key, count - successes)
        self._bursts.record(replica_set.key, successes, began)
        return None if failure is not None and is_namespace_terminating(failure) else failure

    async def _shrink(self, replica_set: ReplicaSet, pods: Sequence[Pod], surplus: int) -> ClientError | None:
        victims = choose_victims(pods, self._related(replica_set), min(surplus, BURST), self._clock())
        self._expectations.expect(replica_set.key, deletions=[pod.metadata.uid for pod in victims])
        return await self._control.delete_all(
            replica_set, victims, lambda pod: self._expectations.deleted(replica_set.key, pod.metadata.uid)
        )

    def _count_terminating(self, replica_set: ReplicaSet, selector: Selector) -> int | None:
        """Return the number of pods that are being deleted and have not ended."""
        pods = self._owned.of(replica_set.metadata.uid)
        return sum(pod.is_terminating and not pod.is_finished and selector.matches(pod.metadata.labels) for pod in pods)

    def _related(self, replica_set: ReplicaSet) -> list[Pod]:
        """Return the pods of all replica sets with the same owner, including this one."""
        owner = replica_set.metadata.controller
        family = self._siblings.of(owner.uid) if owner else [replica_set]
        return [pod for sibling in family for pod in self._owned.of(sibling.metadata.uid)]

    async def _write_status(self, replica_set: ReplicaSet, wanted: ReplicaSetStatus) -> None:
        patch = status_patch(replica_set.status, wanted, always=("replicas",))
        if patch is not None:
            await self._latest.patch_status(self._client, replica_set, {"status": patch})


class ReplicationControllerController(ReplicaSetController):
    """The controller of ReplicationControllers."""

    kind = REPLICATION_CONTROLLERS

    def _count_terminating(self, replica_set: ReplicaSet, selector: Selector) -> None:
        """The status of a ReplicationController does not show these pods."""

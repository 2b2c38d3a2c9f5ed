"""The disruption controller: writes the status of PodDisruptionBudgets.

Started by `manager`; watches budgets, pods and their owners. Without budgets it does nothing.
Source: Kubernetes "Specifying a Disruption Budget for your Application", `pkg/controller/disruption`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from bridgehead.client import ApiClient, EventRecorder, WorkQueue
from bridgehead.client.errors import Conflict, NotFound
from bridgehead.client.workqueue import Done, Outcome, Requeue, Retry
from bridgehead.controllers.read_your_writes import Latest
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import POD_DISRUPTION_BUDGETS, PODS
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.policy import PodDisruptionBudget
from bridgehead.objects.selectors import NOTHING, Selector, compile_selector
from bridgehead.objects.times import parse_time

from .budget_status import (
    DELETION_TIMEOUT,
    compute_status,
    describe_unmanaged_pods,
    expectation,
    failed_status,
    needs_scale,
    patch_of,
)
from .owners import Owners, OwnerUnknown


class DisruptionController:
    """Counts the pods of budgets. `clock` returns seconds since the epoch."""

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
        self._budgets = informers.get(POD_DISRUPTION_BUDGETS)
        self._pods = informers.get(PODS)
        self._owners = Owners(client, informers)
        self._latest = Latest(self._budgets)
        self._queue: WorkQueue[ObjectKey] = WorkQueue("poddisruptionbudgets")
        self._selectors: dict[str, dict[ObjectKey, Selector]] = {}  # of the budgets, by namespace
        self._budgets.on_change(self._budget_changed)
        self._pods.on_change(self._pod_changed)

    async def run(self) -> None:
        await self._budgets.wait_synced()
        await self._pods.wait_synced()
        await self._owners.wait_synced()
        await self._queue.run(self.reconcile)

    # --- Handlers ------------------------------------------------------------------------------------

    def _budget_changed(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        if new is not None:
            self._selectors.setdefault(new.metadata.namespace, {})[new.key] = _selector(new)
            self._queue.add(new.key)
        elif old is not None:
            of_namespace = self._selectors[old.metadata.namespace]
            del of_namespace[old.key]
            if not of_namespace:
                del self._selectors[old.metadata.namespace]

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if (changed := new or old) is None:
            return
        for key, selector in self._selectors.get(changed.metadata.namespace, {}).items():
            if any(pod is not None and selector.matches(pod.metadata.labels) for pod in (old, new)):
                self._queue.add(key)

    # --- Reconciling ---------------------------------------------------------------------------------

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Write the status of one budget. Raises ClientError."""
        budget = self._latest.get(key)
        if budget is None:
            return Done()
        try:
            outcome = await self._count(budget)
        except (Conflict, NotFound):
            raise  # the budget has changed or is gone
        except Exception as error:
            # Counts that are not true any more must not allow an eviction.
            patch = patch_of(budget, failed_status(budget, str(error), self._clock()))
            if patch is not None:
                await self._latest.patch_status(self._client, budget, patch)
            if isinstance(error, OwnerUnknown):
                return Retry(str(error))  # as while a StatefulSet is deleted before its pods; the Event states why
            raise
        return outcome

    async def _count(self, budget: PodDisruptionBudget) -> Outcome:
        selector = _selector(budget)
        pods = [
            pod
            for pod in self._pods.items()
            if pod.metadata.namespace == budget.metadata.namespace and selector.matches(pod.metadata.labels)
        ]
        if not pods:
            self._recorder.record(budget, reason="NoPods", message="No matching pods found")
        scale = 0
        if needs_scale(budget.spec):
            try:
                scale = await self._owners.scale(pods)
            except Exception as error:
                message = f"Failed to calculate the number of expected pods: {error}"
                reason = "CalculateExpectedPodCountFailed"
                self._recorder.record(budget, type="Warning", reason=reason, message=message)
                raise
            if any(pod.metadata.controller is None for pod in pods):
                message = describe_unmanaged_pods(budget.spec.selector)
                self._recorder.record(budget, type="Warning", reason="UnmanagedPods", message=message)
        expected, desired = expectation(budget.spec, len(pods), scale)
        now = self._clock()
        wanted = compute_status(budget, pods, expected, desired, now)
        patch = patch_of(budget, wanted)
        if patch is not None:
            await self._latest.patch_status(self._client, budget, patch)
        if not wanted.disrupted_pods:
            return Done()
        return Requeue(min(map(parse_time, wanted.disrupted_pods.values())) + DELETION_TIMEOUT + 1 - now)


def _selector(budget: PodDisruptionBudget) -> Selector:
    try:
        return compile_selector(budget.spec.selector)
    except ValueError:
        return NOTHING

"""The horizontal pod autoscaler: every 15 s, sets the replicas of what HorizontalPodAutoscalers refer to.

Started by `manager`; watches HorizontalPodAutoscalers and Pods. Without autoscalers it does nothing.
Source: Kubernetes "Horizontal Pod Autoscaling", `pkg/controller/podautoscaler/horizontal.go`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from bridgehead.client import ApiClient, EventRecorder, WorkQueue
from bridgehead.client.errors import ClientError, Unreachable
from bridgehead.client.workqueue import Done, Outcome, Requeue
from bridgehead.controllers.conditions import status_patch
from bridgehead.controllers.read_your_writes import Latest
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.autoscaling import HorizontalPodAutoscaler
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import HORIZONTAL_POD_AUTOSCALERS, PODS
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.selectors import NOTHING, Selector, parse_label_selector

from .autoscaler_status import ABLE_TO_SCALE, SCALING_ACTIVE, SCALING_LIMITED, StatusDraft
from .metrics_client import MetricsClient
from .proposals import MetricProposals, Proposals, Target
from .scale_targets import Scale, ScaleTargets, TargetUnknown
from .scaling_limits import ScalingRecord, limit_replicas, tolerances

log = logging.getLogger(__name__)

SYNC_PERIOD: Final = 15.0
WORKERS: Final = 5


class HorizontalController:
    """Scales by metrics. `clock` returns seconds since the epoch."""

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
        self._autoscalers = informers.get(HORIZONTAL_POD_AUTOSCALERS)
        self._pods = informers.get(PODS)
        self._latest = Latest(self._autoscalers)
        self._targets = ScaleTargets(client)
        self._proposals = MetricProposals(MetricsClient(client), clock)
        self._records: dict[ObjectKey, ScalingRecord] = {}
        # Selectors of the pods that each autoscaler counts, as far as known.
        self._selectors: dict[ObjectKey, Selector] = {}
        self._queue: WorkQueue[ObjectKey] = WorkQueue("horizontalpodautoscalers")
        self._autoscalers.on_change(self._autoscaler_changed)

    async def run(self) -> None:
        await self._autoscalers.wait_synced()
        await self._pods.wait_synced()
        await self._queue.run(self.reconcile, workers=WORKERS)

    def _autoscaler_changed(self, old: HorizontalPodAutoscaler | None, new: HorizontalPodAutoscaler | None) -> None:
        if new is None:
            if old is not None:
                self._records.pop(old.key, None)
                self._selectors.pop(old.key, None)
            return
        self._selectors.setdefault(new.key, NOTHING)
        self._records.setdefault(new.key, ScalingRecord())
        if old is None or old.spec != new.spec:
            self._queue.add(new.key)

    # --- Reconciling ---------------------------------------------------------------------------------

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Scale by one autoscaler, and write its status. Raises Unreachable."""
        autoscaler = self._latest.get(key)
        if autoscaler is None:
            return Done()
        draft = StatusDraft(autoscaler.status, self._clock())
        try:
            await self._scale(autoscaler, draft)
            patch = status_patch(autoscaler.status, draft.status, always=("currentReplicas", "desiredReplicas"))
            if patch is not None:
                await self._latest.patch_status(self._client, autoscaler, {"status": patch})
        except Unreachable:
            raise
        except ClientError as error:
            if self._autoscalers.get(key) is None:
                return Done()
            log.warning("autoscaler %s: %s", key, error)
        return Requeue(SYNC_PERIOD)

    async def _scale(self, autoscaler: HorizontalPodAutoscaler, draft: StatusDraft) -> None:
        """Take one step of an autoscaler, and note in `draft` what its status becomes."""
        try:
            scale = await self._targets.read(autoscaler)
        except Unreachable:
            raise
        except (TargetUnknown, ClientError) as error:
            self._warn(autoscaler, "FailedGetScale", str(error))
            message = f"the HPA controller was unable to get the target's current scale: {error}"
            draft.set_condition(ABLE_TO_SCALE, "FailedGetScale", message, is_true=False)
            return
        record = self._records.get(autoscaler.key)
        if record is None:
            return  # the autoscaler was deleted while the scale was read
        message = "the HPA controller was able to get the target's current scale"
        draft.set_condition(ABLE_TO_SCALE, "SucceededGetScale", message, is_true=True)
        spec, current = autoscaler.spec, scale.spec_replicas
        if not record.recommendations:
            record.recommend(current, self._clock())
        proposals = Proposals()
        if current == 0 and spec.min_replicas != 0:
            message = "scaling is disabled since the replica count of the target is zero"
            draft.set_condition(SCALING_ACTIVE, "ScalingDisabled", message, is_true=False)
            desired, reason = current, ""
        elif current > spec.max_replicas:
            desired, reason = spec.max_replicas, "Current number of replicas above Spec.MaxReplicas"
        elif current < spec.min_replicas:
            desired, reason = spec.min_replicas, "Current number of replicas below Spec.MinReplicas"
        else:
            found = await self._propose(autoscaler, scale, draft)
            if found is None:
                return
            proposals = found
            higher = f"{proposals.name} above target"
            reason = higher if proposals.replicas > current else "All metrics below target"
            desired = self._limit(autoscaler, record, current, proposals.replicas, draft)
        if desired != current:
            if not await self._rescale(autoscaler, scale, desired, reason, proposals, draft):
                return
            record.change(current, desired, self._clock())
        draft.set_counts(current, desired, proposals.statuses, has_rescaled=desired != current)

    async def _propose(self, autoscaler: HorizontalPodAutoscaler, scale: Scale, draft: StatusDraft) -> Proposals | None:
        """Return what the metrics propose; None if they do not suffice."""
        found = Proposals()
        selected = self._select(autoscaler, scale, draft)
        if isinstance(selected, str):
            error = selected
        else:
            target = Target(scale.spec_replicas, scale.status_replicas, selected, scale.selector)
            found = await self._proposals.compute(autoscaler, target, tolerances(autoscaler.spec.behavior))
            for reason, message, _ in found.failures:
                self._warn(autoscaler, reason, message)
            if found.may_be_applied(scale.spec_replicas):
                message = f"the HPA was able to successfully calculate a replica count from {found.name}"
                draft.set_condition(SCALING_ACTIVE, "ValidMetricFound", message, is_true=True)
                return found
            reason, message, _ = found.failures[0]
            message = f"the HPA was unable to compute the replica count: {message}"
            draft.set_condition(SCALING_ACTIVE, reason, message, is_true=False)
            error = found.error
        self._warn(autoscaler, "FailedComputeMetricsReplicas", error)
        draft.set_counts(scale.spec_replicas, autoscaler.status.desired_replicas, found.statuses)
        return None

    def _select(self, autoscaler: HorizontalPodAutoscaler, scale: Scale, draft: StatusDraft) -> list[Pod] | str:
        """Return the pods of an autoscaler, or the message why they cannot be counted."""
        if not scale.selector:
            self._warn(autoscaler, "SelectorRequired", "selector is required")
            message = "the HPA target's scale is missing a selector"
            draft.set_condition(SCALING_ACTIVE, "InvalidSelector", message, is_true=False)
            return "selector is required"
        try:
            selector = parse_label_selector(scale.selector)
        except ValueError as error:
            message = f"couldn't convert selector into a corresponding internal selector object: {error}"
            self._warn(autoscaler, "InvalidSelector", message)
            draft.set_condition(SCALING_ACTIVE, "InvalidSelector", message, is_true=False)
            return message
        self._selectors[autoscaler.key] = selector
        namespace = autoscaler.metadata.namespace
        pods = [
            pod
            for pod in self._pods.items()
            if pod.metadata.namespace == namespace and selector.matches(pod.metadata.labels)
        ]
        rivals = [
            key
            for key, other in sorted(self._selectors.items())
            if key.namespace == namespace and any(other.matches(pod.metadata.labels) for pod in pods)
        ]
        if len(rivals) > 1:
            names = " ".join(map(str, rivals))
            message = f"pods by selector {scale.selector} are controlled by multiple HPAs: [{names}]"
            self._warn(autoscaler, "AmbiguousSelector", message)
            draft.set_condition(SCALING_ACTIVE, "AmbiguousSelector", message, is_true=False)
            return message
        return pods

    def _limit(
        self,
        autoscaler: HorizontalPodAutoscaler,
        record: ScalingRecord,
        current: int,
        desired: int,
        draft: StatusDraft,
    ) -> int:
        spec = autoscaler.spec
        limited = limit_replicas(
            record, spec.behavior, spec.min_replicas, spec.max_replicas, current, desired, self._clock()
        )
        draft.set_condition(ABLE_TO_SCALE, *limited.stable, is_true=True)
        draft.set_condition(SCALING_LIMITED, *limited.limit, is_true=limited.is_limited)
        return limited.replicas

    async def _rescale(
        self,
        autoscaler: HorizontalPodAutoscaler,
        scale: Scale,
        desired: int,
        reason: str,
        proposals: Proposals,
        draft: StatusDraft,
    ) -> bool:
        """Set the number of replicas; return whether that succeeded."""
        what = f"New size: {desired}; reason: {reason}"
        try:
            await self._targets.write(scale, desired)
        except Unreachable:
            raise
        except ClientError as error:
            self._warn(autoscaler, "FailedRescale", f"{what}; error: {error}")
            message = f"the HPA controller was unable to update the target scale: {error}"
            draft.set_condition(ABLE_TO_SCALE, "FailedUpdateScale", message, is_true=False)
            draft.set_counts(scale.spec_replicas, autoscaler.status.desired_replicas, proposals.statuses)
            return False
        message = f"the HPA controller was able to update the target scale to {desired}"
        draft.set_condition(ABLE_TO_SCALE, "SucceededRescale", message, is_true=True)
        self._recorder.record(autoscaler, reason="SuccessfulRescale", message=what)
        return True

    def _warn(self, autoscaler: HorizontalPodAutoscaler, reason: str, message: str) -> None:
        self._recorder.record(autoscaler, type="Warning", reason=reason, message=message)

"""The status of a HorizontalPodAutoscaler: conditions, counts, metrics. Called by `horizontal` and `proposals`.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/controller/podautoscaler/horizontal.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec

from bridgehead.objects.autoscaling import HorizontalPodAutoscalerStatus, MetricSpec
from bridgehead.objects.meta import Condition
from bridgehead.objects.quantities import format_quantity
from bridgehead.objects.times import format_time

ABLE_TO_SCALE, SCALING_ACTIVE, SCALING_LIMITED = "AbleToScale", "ScalingActive", "ScalingLimited"


class StatusDraft:
    """The status that an autoscaler is about to get. `now` is in seconds since the epoch."""

    def __init__(self, status: HorizontalPodAutoscalerStatus, now: float) -> None:
        self._status = status
        self._now = now

    @property
    def status(self) -> HorizontalPodAutoscalerStatus:
        return self._status

    def set_condition(self, type: str, reason: str, message: str, *, is_true: bool) -> None:
        """Set a condition in its place; its time changes with its status only."""
        status, now = "True" if is_true else "False", format_time(self._now)
        conditions = list(self._status.conditions)
        for index, old in enumerate(conditions):
            if old.type == type:
                since = old.last_transition_time if old.status == status else now
                conditions[index] = Condition(
                    type=type, status=status, reason=reason, message=message, last_transition_time=since
                )
                break
        else:
            conditions.append(
                Condition(type=type, status=status, reason=reason, message=message, last_transition_time=now)
            )
        self._status = msgspec.structs.replace(self._status, conditions=tuple(conditions))

    def set_counts(
        self, current: int, desired: int, metrics: Sequence[dict[str, Any]], *, has_rescaled: bool = False
    ) -> None:
        self._status = msgspec.structs.replace(
            self._status,
            current_replicas=current,
            desired_replicas=desired,
            current_metrics=tuple(metrics),
            last_scale_time=format_time(self._now) if has_rescaled else self._status.last_scale_time,
        )


def metric_status(metric: MetricSpec, **current: int | None) -> dict[str, Any]:
    """Return the entry of `currentMetrics`.

    `current` are `value` and `averageValue` in thousandths, and `averageUtilization` in percent; None is left out.
    """
    field = metric.type[:1].lower() + metric.type[1:]
    source = msgspec.to_builtins(metric)[field]
    identity = {name: value for name, value in source.items() if name != "target"}
    values = {
        name: number if name == "averageUtilization" else format_quantity(Decimal(number) / 1000)
        for name, number in current.items()
        if number is not None
    }
    return {"type": metric.type, field: {**identity, "current": values}}

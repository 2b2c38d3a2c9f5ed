"""Limits of an autoscaler's changes: least and most replicas, stabilization, rates. Called by `horizontal`.

Pure: no I/O, no clock, no randomness. Times are in seconds since the epoch.
Source: Kubernetes `pkg/controller/podautoscaler/horizontal.go`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bridgehead.objects.autoscaling import HorizontalPodAutoscalerBehavior, HPAScalingRules
from bridgehead.objects.quantities import parse_quantity

from .replica_counts import Tolerances

# Seconds for which a lower number is not applied after a higher recommendation.
DOWNSCALE_STABILIZATION: Final = 300
# Without rules, a number may be doubled, and raised to four.
_GROWTH_FACTOR, _GROWTH_LEAST = 2, 4
# The longest period and window that a rule may have.
_LONGEST_SECONDS = 3600

_IN_RANGE = ("DesiredWithinRange", "the desired count is within the acceptable range")
_READY = ("ReadyForNewScale", "recommended size matches current size")
_STABILIZED_DOWN = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
_STABILIZED_UP = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_TOO_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_UP_LIMIT = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_DOWN_LIMIT = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")


class Entry(NamedTuple):
    """A recommended number of replicas, or a change of it, and its time."""

    number: int
    time: float


@dataclass
class ScalingRecord:
    """The recommendations and the changes of one autoscaler in the last hour."""

    recommendations: list[Entry] = field(default_factory=list)
    added: list[Entry] = field(default_factory=list)
    removed: list[Entry] = field(default_factory=list)

    def recommend(self, replicas: int, now: float) -> None:
        self.recommendations = [*_since(self.recommendations, now - _LONGEST_SECONDS), Entry(replicas, now)]

    def change(self, before: int, after: int, now: float) -> None:
        """Record that the number of replicas was changed."""
        self.added, self.removed = (list(_since(one, now - _LONGEST_SECONDS)) for one in (self.added, self.removed))
        (self.added if after > before else self.removed).append(Entry(abs(after - before), now))


class Limited(NamedTuple):
    """The replicas to set. `stable` and `limit` are reason and message of AbleToScale and ScalingLimited."""

    replicas: int
    stable: tuple[str, str]
    limit: tuple[str, str]
    is_limited: bool


def limit_replicas(
    record: ScalingRecord,
    behavior: HorizontalPodAutoscalerBehavior | None,
    least: int,
    most: int,
    current: int,
    desired: int,
    now: float,
) -> Limited:
    """Limit the desired number of replicas, and record it as a recommendation."""
    if behavior is None:
        recommendation = max([desired, *_numbers(_since(record.recommendations, now - DOWNSCALE_STABILIZATION))])
        stable = _READY if recommendation == desired else _STABILIZED_DOWN
        replicas, limit = _within(current, recommendation, least, most)
    else:
        recommendation = _stabilized(record, behavior, current, desired, now)
        stable = _READY
        if recommendation != desired:
            stable = _STABILIZED_UP if desired >= current else _STABILIZED_DOWN
        replicas, limit = _rated(record, behavior, current, recommendation, least, most, now)
    record.recommend(desired, now)
    return Limited(replicas, stable, limit, replicas != recommendation)


def tolerances(behavior: HorizontalPodAutoscalerBehavior | None) -> Tolerances:
    if behavior is None:
        return Tolerances()
    down, up = (
        default if rules.tolerance is None else float(parse_quantity(rules.tolerance))
        for rules, default in zip((behavior.scale_down, behavior.scale_up), Tolerances(), strict=True)
    )
    return Tolerances(down, up)


def _within(current: int, desired: int, least: int, most: int) -> tuple[int, tuple[str, str]]:
    """Apply the bounds of an autoscaler without rules."""
    reachable = max(_GROWTH_FACTOR * current, _GROWTH_LEAST)
    if desired < least:
        return least, _TOO_FEW
    if desired > min(most, reachable):
        return (reachable, _UP_LIMIT) if most > reachable else (most, _TOO_MANY)
    return desired, _IN_RANGE


def _stabilized(
    record: ScalingRecord, behavior: HorizontalPodAutoscalerBehavior, current: int, desired: int, now: float
) -> int:
    """Return the number nearest to the current one that the recommendations of the windows allow."""
    up_window = behavior.scale_up.stabilization_window_seconds or 0
    down_window = behavior.scale_down.stabilization_window_seconds
    if down_window is None:
        down_window = DOWNSCALE_STABILIZATION
    lowest = min([desired, *_numbers(_since(record.recommendations, now - up_window))])
    highest = max([desired, *_numbers(_since(record.recommendations, now - down_window))])
    return min(max(current, lowest), highest)


def _rated(
    record: ScalingRecord,
    behavior: HorizontalPodAutoscalerBehavior,
    current: int,
    desired: int,
    least: int,
    most: int,
    now: float,
) -> tuple[int, tuple[str, str]]:
    """Apply the bounds and the policies of an autoscaler with rules."""
    if desired > current:
        reachable = max(_most_by_rules(record, behavior.scale_up, current, now), current)
        if desired > min(most, reachable):
            return (reachable, _UP_LIMIT) if most > reachable else (most, _TOO_MANY)
    elif desired < current:
        reachable = min(_least_by_rules(record, behavior.scale_down, current, now), current)
        if desired < max(least, reachable):
            return (reachable, _DOWN_LIMIT) if least < reachable else (least, _TOO_FEW)
    return desired, _IN_RANGE


def _most_by_rules(record: ScalingRecord, rules: HPAScalingRules, current: int, now: float) -> int:
    """Return to how many replicas the policies allow to grow; a policy of percent is rounded up."""
    if rules.select_policy == "Disabled":
        return current
    proposals = []
    for policy in rules.policies:
        start = _at_start(record, policy.period_seconds, current, now)
        grown = policy.value if policy.type == "Pods" else math.ceil(start * policy.value / 100)
        proposals.append(start + grown)
    return min(proposals) if rules.select_policy == "Min" else max(proposals)


def _least_by_rules(record: ScalingRecord, rules: HPAScalingRules, current: int, now: float) -> int:
    """Return to how many replicas the policies allow to shrink; the rest of a policy of percent is rounded down."""
    if rules.select_policy == "Disabled":
        return current
    proposals = []
    for policy in rules.policies:
        start = _at_start(record, policy.period_seconds, current, now)
        left = start - policy.value if policy.type == "Pods" else start * (100 - policy.value) // 100
        proposals.append(left)
    return max(proposals) if rules.select_policy == "Min" else min(proposals)


def _at_start(record: ScalingRecord, seconds: int, current: int, now: float) -> int:
    """Return the number of replicas at the start of the period that ends now."""
    added = sum(_numbers(_since(record.added, now - seconds)))
    return current - added + sum(_numbers(_since(record.removed, now - seconds)))


def _since(entries: Iterable[Entry], time: float) -> Iterable[Entry]:
    return (entry for entry in entries if entry.time > time)


def _numbers(entries: Iterable[Entry]) -> Iterable[int]:
    return (entry.number for entry in entries)

"""Numbers of replicas for which metrics meet their targets. Called by `proposals`.

Metrics and targets are in thousandths of their unit, times in seconds since the epoch.
Pure: no I/O, no clock, no randomness.
Source: Kubernetes `pkg/controller/podautoscaler/replica_calculator.go`, `metrics/utilization.go`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from bridgehead.objects.core import Container, Pod
from bridgehead.objects.meta import find_condition
from bridgehead.objects.quantities import milli_value
from bridgehead.objects.times import parse_time

# Seconds after a pod's start in which its use of CPU counts only if it was measured while the pod was ready.
CPU_INITIALIZATION: Final = 300.0
# A pod that became unready so soon after its start has never been ready.
INITIAL_READINESS: Final = 30.0


class MetricsError(Exception):
    """A number of replicas cannot be computed. The message is for Events and conditions."""


class PodMetric(NamedTuple):
    """A pod's value, measured until `timestamp` over `window` seconds."""

    value: int
    timestamp: float
    window: float = 60.0


class Tolerances(NamedTuple):
    """Differences of a ratio to the target from 1 that cause no change."""

    down: float = 0.1
    up: float = 0.1

    def cover(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Computed(NamedTuple):
    """A number of replicas. `average` is the mean of the pods' values, `utilization` its percentage of requests."""

    replicas: int
    average: int
    utilization: int | None = None


@dataclass(frozen=True)
class PodGroups:
    """Names of pods: `unready` ones use nothing yet, `missing` ones have no metric, `ignored` ones end."""

    ready_count: int
    unready: frozenset[str]
    missing: frozenset[str]
    ignored: frozenset[str]


def group_pods(pods: Sequence[Pod], metrics: Mapping[str, PodMetric], resource: str, now: float) -> PodGroups:
    """Sort pods by what their metrics are worth. `resource` is "" for metrics that are no resource."""
    groups: dict[str, set[str]] = {"ready": set(), "unready": set(), "missing": set(), "ignored": set()}
    for pod in pods:
        name = pod.metadata.name
        if pod.is_terminating or pod.status.phase == "Failed":
            groups["ignored"].add(name)
        elif pod.status.phase == "Pending":
            groups["unready"].add(name)
        elif name not in metrics:
            groups["missing"].add(name)
        elif resource == "cpu" and _starts_up(pod, metrics[name], now):
            groups["unready"].add(name)
        else:
            groups["ready"].add(name)
    return PodGroups(len(groups["ready"]), *(frozenset(groups[name]) for name in ("unready", "missing", "ignored")))


def _starts_up(pod: Pod, metric: PodMetric, now: float) -> bool:
    condition, start = find_condition(pod.status.conditions, "Ready"), pod.status.start_time
    if condition is None or start is None:
        return True
    is_unready = condition.status == "False"
    since = parse_time(condition.last_transition_time) if condition.last_transition_time else 0.0
    if parse_time(start) + CPU_INITIALIZATION > now:
        return is_unready or metric.timestamp < since + metric.window
    return is_unready and parse_time(start) + INITIAL_READINESS > since


# --- Metrics of each pod ---------------------------------------------------------------------------------


def utilization_replicas(
    current: int,
    target: int,
    resource: str,
    container: str,
    pods: Sequence[Pod],
    metrics: Mapping[str, PodMetric],
    tolerances: Tolerances,
    now: float,
) -> Computed:
    """Compute replicas for a target of so many percent of the requests, of all containers or (`container`) of one.

    Raises MetricsError.
    """
    groups, values = _usable(pods, metrics, resource, now)
    requests = {pod.metadata.name: _request(pod, resource, container) for pod in pods}
    ratio, utilization, average = _utilization(values, requests, target)
    # A pod without metric counts as one that would not cause the change.
    full = {name: requests[name] * max(100, target) // 100 for name in groups.missing}

    def rated(counted: Mapping[str, int]) -> float:
        return _utilization(counted, requests, target)[0]

    replicas = _replicas(current, ratio, groups, values, full, tolerances, rated)
    return Computed(replicas, average, utilization)


def average_replicas(
    current: int,
    target: int,
    resource: str,
    pods: Sequence[Pod],
    metrics: Mapping[str, PodMetric],
    tolerances: Tolerances,
    now: float,
) -> Computed:
    """Compute replicas for a target of the mean value. `resource` is "" for other metrics. Raises MetricsError."""
    groups, values = _usable(pods, metrics, resource, now)

    def rated(counted: Mapping[str, int]) -> float:
        return sum(counted.values()) // len(counted) / target

    average = sum(values.values()) // len(values)
    replicas = _replicas(
        current, average / target, groups, values, dict.fromkeys(groups.missing, target), tolerances, rated
    )
    return Computed(replicas, average)


def _usable(
    pods: Sequence[Pod], metrics: Mapping[str, PodMetric], resource: str, now: float
) -> tuple[PodGroups, dict[str, int]]:
    if not pods:
        raise MetricsError("no pods returned by selector while calculating replica count")
    groups = group_pods(pods, metrics, resource, now)
    left_out = groups.ignored | groups.unready
    values = {name: metric.value for name, metric in metrics.items() if name not in left_out}
    if not values:
        raise MetricsError("did not receive metrics for targeted pods (pods might be unready)")
    return groups, values


def _replicas(
    current: int,
    ratio: float,
    groups: PodGroups,
    values: Mapping[str, int],
    full: Mapping[str, int],
    tolerances: Tolerances,
    rated: Callable[[Mapping[str, int]], float],
) -> int:
    """Compute replicas from the ratio of ready pods; pods that are not in it may only soften the change.

    `full` are values of the missing pods if they use what they may; `rated` computes the ratio of values.
    """
    grows_with_unready = bool(groups.unready) and ratio > 1.0
    if not grows_with_unready and not groups.missing:
        return current if tolerances.cover(ratio) else math.ceil(ratio * groups.ready_count)
    counted = dict(values)
    if ratio < 1.0:
        counted.update(full)
    elif ratio > 1.0:
        counted.update(dict.fromkeys(groups.missing, 0))
    if grows_with_unready:
        counted.update(dict.fromkeys(groups.unready, 0))
    softened = rated(counted)
    if tolerances.cover(softened) or (softened - 1.0) * (ratio - 1.0) < 0:
        return current
    replicas = math.ceil(softened * len(counted))
    turns = replicas > current if softened < 1.0 else replicas < current
    return current if turns else replicas


def _utilization(values: Mapping[str, int], requests: Mapping[str, int], target: int) -> tuple[float, int, int]:
    """Return the ratio to the target, the percentage of the requests, and the mean value."""
    known = [name for name in values if name in requests]
    requested = sum(requests[name] for name in known)
    if not requested:
        raise MetricsError("no metrics returned matched known pods")
    total = sum(values[name] for name in known)
    utilization = total * 100 // requested
    return utilization / target, utilization, total // len(known)


def _request(pod: Pod, resource: str, container: str) -> int:
    """Return what a pod's containers request of a resource. Raises MetricsError."""
    total = 0
    for one in _running_containers(pod):
        if container and one.name != container:
            continue
        if resource not in one.resources.requests:
            raise MetricsError(f"missing request for {resource} in container {one.name} of Pod {pod.metadata.name}")
        total += milli_value(one.resources.requests[resource])
    return total


def _running_containers(pod: Pod) -> list[Container]:
    sidecars = [one for one in pod.spec.init_containers if one.is_sidecar]
    return [*pod.spec.containers, *sidecars]


# --- Metrics of other objects ----------------------------------------------------------------------------


def value_replicas(current: int, target: int, value: int, pods: Sequence[Pod], tolerances: Tolerances) -> Computed:
    """Compute replicas for a target of a value that does not belong to pods. Raises MetricsError."""
    ratio = value / target
    if not current:
        return Computed(math.ceil(ratio), value)
    if tolerances.cover(ratio):
        return Computed(current, value)
    if not pods:
        raise MetricsError(
            "unable to calculate ready pods: no pods returned by selector while calculating replica count"
        )
    ready = sum(pod.status.phase == "Running" and pod.is_ready for pod in pods)
    return Computed(math.ceil(ratio * ready), value)


def share_replicas(status_replicas: int, target: int, value: int, tolerances: Tolerances) -> Computed:
    """Compute replicas for a target of each pod's share of a value."""
    wanted = math.ceil(value / target)
    if not status_replicas:
        return Computed(wanted, value)
    ratio = value / (target * status_replicas)
    return Computed(status_replicas if tolerances.cover(ratio) else wanted, math.ceil(value / status_replicas))

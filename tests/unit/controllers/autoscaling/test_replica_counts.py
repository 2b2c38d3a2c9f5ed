"""Replicas by metrics: ready pods, pods without metrics, pods that start, tolerances."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.controllers.autoscaling.replica_counts import (
    Computed,
    MetricsError,
    PodMetric,
    Tolerances,
    average_replicas,
    group_pods,
    share_replicas,
    utilization_replicas,
    value_replicas,
)
from bridgehead.objects.core import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from bridgehead.objects.meta import Condition, ObjectMeta
from bridgehead.objects.times import format_time

NOW = 1_800_000_000.0
TEN = Tolerances()


def pod(
    name: str,
    *,
    phase: str = "Running",
    ready: str | None = "True",
    age: float = 3600,
    ready_for: float = 3600,
    is_terminating: bool = False,
    requests: dict[str, str | int | float] | None = None,
) -> Pod:
    condition = Condition(type="Ready", status=ready or "", last_transition_time=format_time(NOW - ready_for))
    resources = ResourceRequirements(requests={"cpu": "1"} if requests is None else requests)
    return Pod(
        metadata=ObjectMeta(name=name, deletion_timestamp=format_time(NOW) if is_terminating else None),
        spec=PodSpec(containers=(Container(name="app", resources=resources),)),
        status=PodStatus(
            phase=phase, conditions=(condition,) if ready else (), start_time=format_time(NOW - age) if age else None
        ),
    )


def pods(count: int, **more: Any) -> list[Pod]:
    return [pod(f"p{index}", **more) for index in range(count)]


def metrics(*values: int) -> dict[str, PodMetric]:
    return {f"p{index}": PodMetric(value, NOW) for index, value in enumerate(values)}


# name: current replicas, pods, values, target in percent; replicas, mean value, percent
UTILIZATIONS = {
    "scales up": (3, pods(3), (300, 500, 700), 30, (5, 500, 50)),
    "scales down": (5, pods(5), (100, 300, 500, 250, 250), 50, (3, 280, 28)),
    "within the tolerance": (3, pods(3), (1000, 1000, 1050), 100, (3, 1016, 101)),
    "rounds up": (3, pods(3), (400, 400, 400), 30, (4, 400, 40)),
    # A pod that is not ready counts as one that uses nothing, so that it softens growth.
    "grows less with a pod that starts": (3, [*pods(2), pod("p2", phase="Pending")], (500, 700), 30, (4, 600, 60)),
    "does not grow if the pod that starts suffices": (
        3,
        [*pods(2), pod("p2", phase="Pending")],
        (400, 500),
        40,
        (3, 450, 45),
    ),
    # On the way down, a pod without metrics counts as one that uses its request.
    "shrinks less without a metric": (4, pods(4), (100, 100, 100), 50, (3, 100, 10)),
    "does not turn upwards without a metric": (4, pods(4), (400, 400), 50, (4, 400, 40)),
    "missing metrics count up to a target above the requests": (2, pods(2), (1400,), 150, (2, 1400, 140)),
    "grows less without a metric": (2, pods(2), (1000,), 30, (4, 1000, 100)),
    "ignores what ends": (
        3,
        [*pods(2), pod("p2", is_terminating=True), pod("p3", phase="Failed")],
        (900, 900, 9000, 9),
        30,
        (6, 900, 90),
    ),
    # More replicas than metrics: what is counted cannot raise the number while the ratio falls.
    "does not grow on the way down": (1, pods(5), (100, 100, 100, 100), 50, (1, 100, 10)),
}


@pytest.mark.parametrize("name", UTILIZATIONS)
def test_replicas_by_utilization(name: str) -> None:
    current, all_pods, values, target, (replicas, average, percent) = UTILIZATIONS[name]
    computed = utilization_replicas(current, target, "cpu", "", all_pods, metrics(*values), TEN, NOW)
    assert computed == Computed(replicas, average, percent)


# name: current replicas, pods, values, target; replicas, mean value
AVERAGES = {
    "scales up": (3, pods(3), (20000, 10000, 30000), 15000, (4, 20000)),
    "scales down": (5, pods(5), (12000,) * 5, 20000, (3, 12000)),
    "within the tolerance": (3, pods(3), (20000, 19000, 21000), 20000, (3, 20000)),
    "pending pods soften growth": (3, [*pods(2), pod("p2", phase="Pending")], (50000, 50000), 15000, (7, 50000)),
    "missing metrics soften shrinking": (5, pods(5), (10000,) * 4, 20000, (3, 10000)),
    "missing metrics change nothing at the target": (2, pods(2), (20000,), 20000, (2, 20000)),
}


@pytest.mark.parametrize("name", AVERAGES)
def test_replicas_by_mean_value(name: str) -> None:
    current, all_pods, values, target, (replicas, average) = AVERAGES[name]
    computed = average_replicas(current, target, "", all_pods, metrics(*values), TEN, NOW)
    assert computed == Computed(replicas, average)


@pytest.mark.parametrize(
    ("all_pods", "values", "message"),
    [
        ([], (1,), "no pods returned by selector while calculating replica count"),
        (pods(1, phase="Pending"), (), "did not receive metrics for targeted pods (pods might be unready)"),
        (pods(1, requests={}), (1,), "missing request for cpu in container app of Pod p0"),
        (pods(1, requests={"cpu": "0"}), (1,), "no metrics returned matched known pods"),
    ],
)
def test_what_cannot_be_computed(all_pods, values, message) -> None:
    with pytest.raises(MetricsError) as caught:
        utilization_replicas(1, 50, "cpu", "", all_pods, metrics(*values), TEN, NOW)
    assert str(caught.value) == message


def test_one_container_and_sidecars() -> None:
    requests = ResourceRequirements(requests={"cpu": "1"})
    app, log = Container(name="app", resources=requests), Container(name="log", resources=requests)
    sidecar = Container(name="mesh", restart_policy="Always", resources=requests)
    setup = Container(name="setup")
    one = Pod(
        metadata=ObjectMeta(name="p0"),
        spec=PodSpec(containers=(app, log), init_containers=(setup, sidecar)),
        status=pod("p0").status,
    )
    whole = utilization_replicas(1, 50, "cpu", "", [one], metrics(1500), TEN, NOW)
    assert (whole.replicas, whole.utilization) == (1, 50)
    part = utilization_replicas(1, 50, "cpu", "app", [one], metrics(1500), TEN, NOW)
    assert (part.replicas, part.utilization) == (3, 150)


# name: pod, age of the metric in seconds; whether it is ready, unready, missing, ignored
GROUPS = {
    "runs": (pod("p0"), 0, "ready"),
    "is pending": (pod("p0", phase="Pending"), 0, "unready"),
    "has no metric": (pod("p1"), 0, "missing"),
    "ends": (pod("p0", is_terminating=True), 0, "ignored"),
    "failed": (pod("p0", phase="Failed"), 0, "ignored"),
    "has no condition": (pod("p0", ready=None), 0, "unready"),
    "has no start time": (pod("p0", age=0), 0, "unready"),
    "starts, not ready": (pod("p0", ready="False", age=60, ready_for=60), 0, "unready"),
    "starts, ready since the last window": (pod("p0", age=100, ready_for=90), 0, "ready"),
    "starts, measured before it was ready": (pod("p0", age=100, ready_for=90), 45, "unready"),
    "has never been ready": (pod("p0", ready="False", age=3600, ready_for=3590), 0, "unready"),
    "is not ready any more": (pod("p0", ready="False", age=3600, ready_for=60), 0, "ready"),
}


@pytest.mark.parametrize("name", GROUPS)
def test_groups_of_pods(name: str) -> None:
    one, age, group = GROUPS[name]
    groups = group_pods([one], {"p0": PodMetric(1, NOW - age)}, "cpu", NOW)
    found = {"unready": groups.unready, "missing": groups.missing, "ignored": groups.ignored}
    assert groups.ready_count == (group == "ready")
    assert {name for name, names in found.items() if names} == ({group} - {"ready"})
    # Only the use of CPU is high while a pod starts.
    if group == "unready" and one.status.phase == "Running":
        assert group_pods([one], {"p0": PodMetric(1, NOW - age)}, "memory", NOW).ready_count == 1


@pytest.mark.parametrize(
    ("current", "target", "value", "running", "replicas"),
    [(3, 10, 20, 3, 6), (3, 20, 21, 3, 3), (3, 20, 10, 3, 2), (0, 10, 25, 0, 3), (2, 10, 100, 1, 10)],
)
def test_replicas_by_a_value(current, target, value, running, replicas) -> None:
    assert value_replicas(current, target, value, pods(running), TEN) == Computed(replicas, value)


def test_a_value_needs_pods() -> None:
    with pytest.raises(MetricsError, match="unable to calculate ready pods: no pods returned by selector"):
        value_replicas(1, 10, 100, [], TEN)


@pytest.mark.parametrize(
    ("current", "target", "value", "expected"),
    [(4, 10, 80, (8, 20)), (4, 10, 41, (4, 11)), (4, 10, 20, (2, 5)), (0, 10, 25, (3, 25))],
)
def test_replicas_by_the_share_of_a_value(current, target, value, expected) -> None:
    assert share_replicas(current, target, value, TEN) == Computed(*expected)


@pytest.mark.parametrize(
    ("tolerances", "ratio", "is_covered"),
    [(TEN, 1.1, True), (TEN, 1.11, False), (TEN, 0.9, True), (TEN, 0.89, False), (Tolerances(0.3, 0.0), 0.7, True)],
)
def test_tolerances(tolerances, ratio, is_covered) -> None:
    assert tolerances.cover(ratio) is is_covered

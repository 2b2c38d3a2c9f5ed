import msgspec
import pytest

from bridgehead.controllers.disruption.budget_status import (
    compute_status,
    describe_unmanaged_pods,
    expectation,
    failed_status,
    patch_of,
)
from bridgehead.objects.core import Pod
from bridgehead.objects.meta import LabelSelector
from bridgehead.objects.policy import PodDisruptionBudget, PodDisruptionBudgetSpec
from bridgehead.objects.times import format_time

NOW = 1_800_000_000.0


def pod(name, ready="True", **meta):
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return msgspec.convert({"metadata": {"name": name, **meta}, "status": status}, Pod)


def budget(**status):
    meta = {"name": "b", "generation": 3, "resourceVersion": "7"}
    return msgspec.convert({"metadata": meta, "status": status}, PodDisruptionBudget)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, (0, 0)),
        ({"min_available": 2}, (3, 2)),
        ({"min_available": "50%"}, (7, 4)),
        ({"max_unavailable": "30%"}, (7, 4)),
        ({"max_unavailable": 2}, (7, 5)),
        ({"max_unavailable": 9}, (7, 0)),
    ],
)
def test_expectations(spec, expected):
    assert expectation(PodDisruptionBudgetSpec(**spec), pods=3, scale=7) == expected


@pytest.mark.parametrize(
    ("pods", "expected", "desired", "counts"),
    [
        ([pod("a"), pod("b")], 2, 1, (2, 1, "SufficientPods")),
        ([pod("a"), pod("b", "False")], 2, 1, (1, 0, "InsufficientPods")),
        ([pod("a"), pod("b", deletionTimestamp="2027-01-01T00:00:00Z")], 2, 1, (1, 0, "InsufficientPods")),
        ([pod("a")], 3, 2, (1, 0, "InsufficientPods")),
        ([], 0, 0, (0, 0, "InsufficientPods")),
    ],
)
def test_counts(pods, expected, desired, counts):
    status = compute_status(budget(), pods, expected, desired, NOW)
    (condition,) = status.conditions
    assert (status.current_healthy, status.disruptions_allowed, condition.reason) == counts
    assert (status.observed_generation, status.expected_pods, status.desired_healthy) == (3, expected, desired)


def test_an_evicted_pod_does_not_count_until_its_time_is_over():
    since = format_time(NOW)
    seen = budget(disruptedPods={"a": since, "gone": since})
    status = compute_status(seen, [pod("a"), pod("b")], 2, 1, NOW + 120)
    assert (status.current_healthy, status.disrupted_pods) == (1, {"a": since})
    patch = patch_of(seen, status)
    assert patch is not None
    assert patch["metadata"] == {"resourceVersion": "7"}
    assert patch["status"]["disruptedPods"] == {"a": since, "gone": None}
    late = compute_status(seen, [pod("a"), pod("b")], 2, 1, NOW + 121)
    assert (late.current_healthy, late.disrupted_pods) == (2, {})
    patch = patch_of(seen, late)
    assert patch is not None
    assert patch["status"]["disruptedPods"] is None


def test_a_status_is_written_once():
    pods = [pod("a"), pod("b")]
    first = compute_status(budget(), pods, 2, 1, NOW)
    seen = msgspec.structs.replace(budget(), status=first)
    assert patch_of(seen, compute_status(seen, pods, 2, 1, NOW + 60)) is None
    failed = failed_status(seen, "no scale", NOW + 60)
    (condition,) = failed.conditions
    assert (failed.disruptions_allowed, condition.reason, condition.message) == (0, "SyncFailed", "no scale")
    assert condition.last_transition_time == format_time(NOW + 60)


def test_the_text_about_pods_without_a_controller():
    text = describe_unmanaged_pods(LabelSelector(match_labels={"app": "web"}))
    shown = "&LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},}"
    assert text.startswith(f"Pods selected by this PodDisruptionBudget (selector: {shown}) were found to be unmanaged.")

"""Answers of the metrics APIs, and the status that shows them."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.controllers.autoscaling.autoscaler_status import StatusDraft, metric_status
from bridgehead.controllers.autoscaling.metric_answers import (
    external_metric,
    object_metric,
    pod_metrics,
    resource_metrics,
)
from bridgehead.controllers.autoscaling.metrics_client import selector_query
from bridgehead.controllers.autoscaling.replica_counts import MetricsError, PodMetric
from bridgehead.objects.autoscaling import HorizontalPodAutoscalerStatus, MetricSpec
from bridgehead.objects.meta import LabelSelector, LabelSelectorRequirement
from bridgehead.objects.selectors import shown_selector

TIME, SECONDS = "2027-01-15T08:00:00Z", 1800000000.0


def item(name: str, **usages: dict[str, str]) -> dict[str, object]:
    containers = [{"name": container, "usage": usage} for container, usage in usages.items()]
    return {"metadata": {"name": name, "namespace": "n"}, "timestamp": TIME, "window": "30s", "containers": containers}


def test_the_use_of_a_resource() -> None:
    answer = {
        "items": [
            item("a", app={"cpu": "250m"}, log={"cpu": "1500u"}),
            item("b", app={"cpu": "1"}, log={"memory": "1Gi"}),  # one container has no value
            item("c"),
        ]
    }
    assert resource_metrics(answer, "cpu", "") == {"a": PodMetric(252, SECONDS, 30.0)}
    assert resource_metrics({"items": answer["items"][:2]}, "cpu", "app") == {
        "a": PodMetric(250, SECONDS, 30.0),
        "b": PodMetric(1000, SECONDS, 30.0),
    }
    with pytest.raises(MetricsError) as caught:
        resource_metrics(answer, "cpu", "app")
    assert str(caught.value) == ("failed to get container metrics: container app not present in metrics for pod n/c")


def test_custom_and_external_metrics() -> None:
    values = [{"describedObject": {"name": "a"}, "timestamp": TIME, "windowSeconds": 10, "value": "7500m"}]
    values += [{"describedObject": {"name": "b"}, "value": 2}]
    assert pod_metrics({"items": values}) == {"a": PodMetric(7500, SECONDS, 10.0), "b": PodMetric(2000, 0.0, 60.0)}
    assert object_metric({"items": values[:1]}) == 7500
    assert external_metric({"items": values}) == 9500


@pytest.mark.parametrize(
    ("read", "answer", "message"),
    [
        (lambda one: resource_metrics(one, "cpu", ""), {}, "no metrics returned from resource metrics API"),
        (pod_metrics, {"items": []}, "no metrics returned from custom metrics API"),
        (external_metric, {"items": []}, "no metrics returned from external metrics API"),
        (
            object_metric,
            {"items": [{}, {}]},
            "the custom metrics API server returned 2 results when we asked for exactly one",
        ),
    ],
)
def test_answers_without_the_metric(read, answer, message) -> None:
    with pytest.raises(MetricsError) as caught:
        read(answer)
    assert str(caught.value) == message


SELECTOR = LabelSelector(
    match_labels={"b": "2", "a": "1"},
    match_expressions=(
        LabelSelectorRequirement(key="c", operator="In", values=("y", "x")),
        LabelSelectorRequirement(key="d", operator="NotIn", values=("x",)),
        LabelSelectorRequirement(key="e", operator="Exists"),
        LabelSelectorRequirement(key="f", operator="DoesNotExist"),
    ),
)


def test_selectors() -> None:
    assert selector_query(None) == ""
    assert selector_query(SELECTOR) == "a=1,b=2,c in (x,y),d notin (x),e,!f"
    assert shown_selector(None) == "nil"
    shown = shown_selector(LabelSelector(match_labels={"a": "1"}, match_expressions=SELECTOR.match_expressions[:1]))
    assert shown == (
        "&LabelSelector{MatchLabels:map[string]string{a: 1,},MatchExpressions:[]LabelSelectorRequirement{"
        "LabelSelectorRequirement{Key:c,Operator:In,Values:[y x],},},}"
    )


def test_the_status_of_a_metric() -> None:
    source = {"name": "cpu", "container": "app", "target": {"type": "Utilization", "averageUtilization": 50}}
    metric = msgspec.convert({"type": "ContainerResource", "containerResource": source}, MetricSpec)
    assert metric_status(metric, averageUtilization=12, averageValue=30) == {
        "type": "ContainerResource",
        "containerResource": {
            "name": "cpu",
            "container": "app",
            "current": {"averageUtilization": 12, "averageValue": "30m"},
        },
    }
    source = {"metric": {"name": "q"}, "target": {"type": "Value", "value": "3"}}
    metric = msgspec.convert({"type": "External", "external": source}, MetricSpec)
    assert metric_status(metric, value=2500000, averageValue=None) == {
        "type": "External",
        "external": {"metric": {"name": "q"}, "current": {"value": "2500"}},
    }


def test_a_condition_changes_its_time_with_its_status_only() -> None:
    draft = StatusDraft(HorizontalPodAutoscalerStatus(), SECONDS)
    draft.set_condition("A", "R", "m", is_true=True)
    draft.set_condition("B", "R", "m", is_true=True)
    later = StatusDraft(draft.status, SECONDS + 60)
    later.set_condition("A", "Other", "n", is_true=True)
    later.set_condition("B", "R", "m", is_true=False)
    assert [(one.type, one.status, one.reason, one.last_transition_time) for one in later.status.conditions] == [
        ("A", "True", "Other", TIME),
        ("B", "False", "R", "2027-01-15T08:01:00Z"),
    ]
    later.set_counts(2, 3, [{"type": ""}], has_rescaled=True)
    assert (later.status.current_replicas, later.status.last_scale_time) == (2, "2027-01-15T08:01:00Z")
    later.set_counts(3, 3, [])
    assert (later.status.current_metrics, later.status.last_scale_time) == ((), "2027-01-15T08:01:00Z")

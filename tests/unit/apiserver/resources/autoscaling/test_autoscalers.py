"""HorizontalPodAutoscalers in both versions: defaults, conversion, writes in the older version."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridgehead.apiserver.resources.autoscaling import OLDER_HORIZONTAL_POD_AUTOSCALERS
from tests.unit.apiserver.world import World, open_world

NEWER = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
OLDER = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
PREFIX = "autoscaling.alpha.kubernetes.io/"
WEB = {"kind": "Deployment", "apiVersion": "apps/v1", "name": "web"}


def cpu(percent: int) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


# Metrics of v2, with their form in v1's annotation.
METRICS = [
    (
        {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
        {"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Gi"}},
    ),
    (
        {
            "type": "ContainerResource",
            "containerResource": {
                "name": "cpu",
                "container": "app",
                "target": {"type": "Utilization", "averageUtilization": 50},
            },
        },
        {
            "type": "ContainerResource",
            "containerResource": {"name": "cpu", "container": "app", "targetAverageUtilization": 50},
        },
    ),
    (
        {
            "type": "Object",
            "object": {
                "describedObject": WEB,
                "metric": {"name": "hits", "selector": {"matchLabels": {"a": "b"}}},
                "target": {"type": "Value", "value": "10"},
            },
        },
        {
            "type": "Object",
            "object": {
                "target": WEB,
                "metricName": "hits",
                "selector": {"matchLabels": {"a": "b"}},
                "targetValue": "10",
            },
        },
    ),
    (
        {"type": "Pods", "pods": {"metric": {"name": "q"}, "target": {"type": "AverageValue", "averageValue": "7"}}},
        {"type": "Pods", "pods": {"metricName": "q", "targetAverageValue": "7"}},
    ),
    (
        {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "7"}}},
        {"type": "External", "external": {"metricName": "q", "targetValue": "7"}},
    ),
]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


async def test_defaults(world: World) -> None:
    made = await world.create(NEWER, {"metadata": {"name": "a"}, "spec": {"scaleTargetRef": WEB, "maxReplicas": 3}})
    assert made["spec"] == {"scaleTargetRef": WEB, "maxReplicas": 3, "minReplicas": 1, "metrics": [cpu(80)]}
    assert made["status"] == {"currentReplicas": 0, "desiredReplicas": 0, "currentMetrics": None}
    spec = {"scaleTargetRef": WEB, "maxReplicas": 3, "behavior": {"scaleDown": {"selectPolicy": "Min"}}}
    made = await world.create(NEWER, {"metadata": {"name": "b"}, "spec": spec})
    percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
    assert made["spec"]["behavior"] == {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, percent],
        },
        "scaleDown": {"selectPolicy": "Min", "policies": [percent]},
    }


async def test_the_older_version_has_one_metric_and_carries_the_others_in_annotations(world: World) -> None:
    metrics = [newer for newer, _ in METRICS]
    spec = {"scaleTargetRef": WEB, "maxReplicas": 3, "metrics": [*metrics, cpu(60)], "behavior": {}}
    made = await world.create(NEWER, {"metadata": {"name": "a", "annotations": {"x": "y"}}, "spec": spec})
    older = await world.get(f"{OLDER}/a")
    assert older["apiVersion"] == "autoscaling/v1"
    assert older["spec"] == {
        "scaleTargetRef": WEB,
        "maxReplicas": 3,
        "minReplicas": 1,
        "targetCPUUtilizationPercentage": 60,
    }
    annotations = older["metadata"]["annotations"]
    assert annotations.keys() == {"x", f"{PREFIX}metrics", f"{PREFIX}behavior"}
    assert json.loads(annotations[f"{PREFIX}metrics"]) == [form for _, form in METRICS]
    assert json.loads(annotations[f"{PREFIX}behavior"]) == made["spec"]["behavior"]
    written = (await world.call("PUT", f"{OLDER}/a", older)).json
    assert written["metadata"]["annotations"] == annotations
    again = await world.get(f"{NEWER}/a")
    assert (again["spec"], again["metadata"]["annotations"]) == (made["spec"], {"x": "y"})


async def test_the_older_version_can_be_patched_and_applied(world: World) -> None:
    spec = {"scaleTargetRef": WEB, "maxReplicas": 3, "targetCPUUtilizationPercentage": 70}
    await world.create(OLDER, {"metadata": {"name": "a"}, "spec": spec})
    assert (await world.get(f"{NEWER}/a"))["spec"]["metrics"] == [cpu(70)]
    await world.patch(f"{OLDER}/a", {"spec": {"targetCPUUtilizationPercentage": 75}})
    assert (await world.get(f"{NEWER}/a"))["spec"]["metrics"] == [cpu(75)]
    refused = await world.patch(f"{OLDER}/a", {"spec": {"maxReplicas": 0}})
    assert "spec.maxReplicas: Invalid value: 0: must be greater than 0" in refused.json["message"]
    (listed,) = (await world.get(OLDER))["items"]
    assert listed["spec"]["targetCPUUtilizationPercentage"] == 75


async def test_both_versions_show_the_status(world: World) -> None:
    await world.create(NEWER, {"metadata": {"name": "a"}, "spec": {"scaleTargetRef": WEB, "maxReplicas": 3}})
    current = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 12}}}]
    conditions: list[dict[str, Any]] = [{"type": "AbleToScale", "status": "True"}]
    status = {"currentReplicas": 2, "currentMetrics": current, "conditions": conditions}
    await world.patch(f"{NEWER}/a/status", {"status": status})
    older = await world.get(f"{OLDER}/a")
    assert older["status"] == {"currentReplicas": 2, "desiredReplicas": 0, "currentCPUUtilizationPercentage": 12}
    assert json.loads(older["metadata"]["annotations"][f"{PREFIX}conditions"]) == conditions
    assert (await world.call("PUT", f"{OLDER}/a/status", older)).json["status"] == older["status"]
    (condition,) = conditions
    condition["lastTransitionTime"] = None
    assert (await world.get(f"{NEWER}/a"))["status"] == status | {"desiredReplicas": 0}
    refused = await world.patch(f"{NEWER}/a/status", {"status": {"desiredReplicas": -1}})
    assert refused.json["message"].endswith(
        "status.desiredReplicas: Invalid value: -1: must be greater than or equal to 0"
    )


async def test_an_invalid_version_of_the_target_is_refused_where_it_is_new(world: World) -> None:
    spec = {"scaleTargetRef": {"kind": "ReplicationController", "name": "web"}, "maxReplicas": 3}
    await world.create(NEWER, {"metadata": {"name": "a"}, "spec": spec})
    changed = await world.patch(f"{NEWER}/a", {"spec": {"scaleTargetRef": {"kind": "Deployment"}}})
    assert "apiVersion must specify API group" in changed.json["message"]
    assert (await world.patch(f"{NEWER}/a", {"spec": {"maxReplicas": 4}})).status == 200


@pytest.mark.parametrize("text", ["", "[", "7", "{}", "[7]", '"x"'])
def test_annotations_that_carry_nothing_are_dropped(text: str) -> None:
    form = OLDER_HORIZONTAL_POD_AUTOSCALERS.stored_form
    assert form is not None
    annotations = {f"{PREFIX}{name}": text for name in ("metrics", "current-metrics", "conditions")}
    stored = form.to_stored({"metadata": {"annotations": annotations}, "spec": {"maxReplicas": 1}, "status": {}})
    assert (stored["metadata"], stored["spec"], stored["status"]) == ({}, {"maxReplicas": 1}, {})


def test_the_use_of_cpu_stays_without_the_annotation() -> None:
    form = OLDER_HORIZONTAL_POD_AUTOSCALERS.stored_form
    assert form is not None
    stored = form.to_stored({"status": {"currentCPUUtilizationPercentage": 7}})
    values = {"averageUtilization": 7}
    assert stored["status"] == {
        "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": values}}]
    }


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ({"metadata": {"name": "a"}}, {"metadata": {"name": "a"}}),
        ({"spec": {"maxReplicas": 2}}, {"spec": {"maxReplicas": 2}}),
        (
            {"status": {"currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {}}}]}},
            {"status": {}},
        ),
    ],
)
def test_a_part_of_an_autoscaler_is_converted(newer: dict[str, Any], older: dict[str, Any]) -> None:
    form = OLDER_HORIZONTAL_POD_AUTOSCALERS.stored_form
    assert form is not None
    assert form.from_stored(newer) == {**older, "apiVersion": "autoscaling/v1"}

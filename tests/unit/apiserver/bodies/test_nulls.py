"""Nulls of stored objects, and what clients see of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.bodies.nulls import drop_nulls, null_fields, nulls_of, write_nulls
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.apiserver.resources import build_table
from tests.unit.apiserver.world import TABLE, World, open_world

TABLE_OF_ALL = build_table(service_cidrs=("10.96.0.0/16",), node_port_range=(30000, 32767))
RESOURCES = {(resource.group, resource.version, resource.plural): resource for resource in TABLE_OF_ALL}
PODS = RESOURCES["", "v1", "pods"]
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as opened:
        yield opened


def written(resource: Resource, obj: JsonObject) -> JsonObject:
    write_nulls(obj, nulls_of(resource))
    return obj


@pytest.mark.parametrize(
    ("path", "obj", "expected"),
    [
        (("discovery.k8s.io", "v1", "endpointslices"), {"endpoints": []}, {"endpoints": None, "ports": None}),
        (
            ("discovery.k8s.io", "v1", "endpointslices"),
            {"endpoints": [{}, {"addresses": ["10.0.0.1"]}], "ports": [{"port": 1}]},
            {"endpoints": [{"addresses": None}, {"addresses": ["10.0.0.1"]}], "ports": [{"port": 1}]},
        ),
        (
            ("", "v1", "pods"),
            {"status": {"conditions": [{"type": "Ready"}], "containerStatuses": [{"state": {"running": {}}}]}},
            {
                "status": {
                    "conditions": [{"type": "Ready", "lastProbeTime": None, "lastTransitionTime": None}],
                    "containerStatuses": [{"state": {"running": {"startedAt": None}}}],
                }
            },
        ),
        (
            ("", "v1", "persistentvolumeclaims"),
            {"spec": {"dataSource": {"kind": "PersistentVolumeClaim"}, "dataSourceRef": {"apiGroup": ""}}},
            {
                "spec": {
                    "dataSource": {"kind": "PersistentVolumeClaim", "apiGroup": None},
                    "dataSourceRef": {"apiGroup": ""},
                }
            },
        ),
        (
            ("resource.k8s.io", "v1", "resourceslices"),
            {"spec": {"devices": [{"capacity": {"memory": {"requestPolicy": {}}}}]}},
            {"spec": {"devices": [{"capacity": {"memory": {"requestPolicy": {"default": None}}}}]}},
        ),
        (("", "v1", "configmaps"), {}, {}),
        (("", "v1", "services"), {"status": {"loadBalancer": {}}}, {"status": {"loadBalancer": {}}}),
    ],
)
def test_fields_that_are_null(path: tuple[str, str, str], obj: JsonObject, expected: JsonObject) -> None:
    assert written(RESOURCES[path], obj) == expected


def test_null_fields() -> None:
    assert null_fields("io.k8s.api.core.v1.PodCondition") == {"lastProbeTime", "lastTransitionTime"}
    assert null_fields("io.k8s.apimachinery.pkg.apis.meta.v1.Condition") == {"lastTransitionTime"}
    assert null_fields("io.k8s.api.core.v1.ServiceSpec") == frozenset()


CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {"type": st.text(max_size=3)},
        optional={"lastProbeTime": st.just("2026-01-01T00:00:00Z"), "reason": st.text(max_size=3)},
    )
)


@given(CONDITIONS)
def test_what_is_written_is_dropped_again(conditions: list[dict[str, Any]]) -> None:
    pod: JsonObject = {"spec": {"nodeName": "a"}, "status": {"conditions": [dict(one) for one in conditions]}}
    write_nulls(pod, nulls_of(PODS))
    once = [dict(one) for one in pod["status"]["conditions"]]
    write_nulls(pod, nulls_of(PODS))
    assert pod["status"]["conditions"] == once
    drop_nulls(pod, nulls_of(PODS))
    assert pod["status"]["conditions"] == conditions


async def test_a_slice_without_endpoints(world: World) -> None:
    sent = {"metadata": {"name": "a"}, "addressType": "IPv4", "endpoints": [], "ports": []}
    made = await world.create(SLICES, sent)
    assert (made["endpoints"], made["ports"]) == (None, None)
    # An update with the same object, as it was read and as it was sent, is no change.
    assert (await world.call("PUT", f"{SLICES}/a", made)).json == made
    assert (await world.call("PUT", f"{SLICES}/a", sent)).json == made
    assert (await world.patch(f"{SLICES}/a", {"endpoints": None})).json == made
    table = await world.call("GET", SLICES, headers={"accept": TABLE})
    assert table.json["rows"][0]["cells"][:4] == ["a", "IPv4", "<unset>", "<unset>"]
    listed = await world.get(SLICES)
    assert listed["items"][0]["ports"] is None


async def test_managers_own_the_nulls_of_what_they_add(world: World) -> None:
    """Kubelets own `f:lastProbeTime` of the conditions that they add."""
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    await world.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    await world.create("/api/v1/namespaces/default/pods", pod)
    status = {"conditions": [{"type": "Ready", "status": "False"}]}
    patched = (await world.patch("/api/v1/namespaces/default/pods/a/status", {"status": status})).json
    (entry,) = [one for one in patched["metadata"]["managedFields"] if one.get("subresource") == "status"]
    condition = entry["fieldsV1"]["f:status"]["f:conditions"]['k:{"type":"Ready"}']
    assert condition == {".": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}}
    patched["status"]["conditions"][0]["lastProbeTime"] = "2026-01-01T00:00:00Z"
    answer = await world.call("PUT", "/api/v1/namespaces/default/pods/a/status", patched)
    assert answer.json["status"]["conditions"][0]["lastProbeTime"] == "2026-01-01T00:00:00Z"


async def test_events_have_nulls_in_both_groups(world: World) -> None:
    event = {
        "metadata": {"name": "a", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"},
        "reason": "Testing",
    }
    made = await world.create("/api/v1/namespaces/default/events", event)
    assert {made[name] for name in ("eventTime", "firstTimestamp", "lastTimestamp")} == {None}
    newer = await world.get("/apis/events.k8s.io/v1/namespaces/default/events/a")
    times = ("eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp")
    assert {newer[name] for name in times} == {None}
    assert "firstTimestamp" not in newer


async def test_a_limit_range_without_limits_limits_nothing(world: World) -> None:
    await world.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    made = await world.create("/api/v1/namespaces/default/limitranges", {"metadata": {"name": "a"}})
    assert made["spec"] == {"limits": None}
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    await world.create("/api/v1/namespaces/default/pods", pod)


async def test_a_new_definition_has_no_conditions(world: World) -> None:
    names = {"plural": "as", "kind": "A"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "a.example", "names": names, "scope": "Cluster", "versions": [version]}
    definition = {"metadata": {"name": "as.a.example"}, "spec": spec}
    made = await world.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    assert (made["status"]["conditions"], made["status"]["storedVersions"]) == (None, ["v1"])


async def test_a_json_patch_finds_nulls(world: World) -> None:
    made = await world.create(SLICES, {"metadata": {"name": "a"}, "addressType": "IPv4"})
    tested = await world.patch(f"{SLICES}/a", [{"op": "test", "path": "/ports", "value": None}], "json-patch")
    assert tested.json == made
    endpoints = [{"addresses": ["10.0.0.1"]}]
    patch = [{"op": "replace", "path": "/endpoints", "value": endpoints}]
    changed = (await world.patch(f"{SLICES}/a", patch, "json-patch")).json
    assert changed["endpoints"] == [{"addresses": ["10.0.0.1"], "conditions": {}}]
    assert changed["ports"] is None


async def test_nobody_owns_the_zero_values_of_a_new_object(world: World) -> None:
    event = {
        "metadata": {"name": "a", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"},
        "reason": "Testing",
    }
    made = await world.create("/api/v1/namespaces/default/events", event)
    assert made["reportingComponent"] == ""
    (entry,) = made["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:involvedObject": {}, "f:reason": {}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = await world.create(
        "/apis/apps/v1/namespaces/default/statefulsets", {"metadata": {"name": "a"}, "spec": spec}
    )
    assert made["spec"]["serviceName"] == ""
    (entry,) = made["metadata"]["managedFields"]
    assert "f:serviceName" not in entry["fieldsV1"]["f:spec"]

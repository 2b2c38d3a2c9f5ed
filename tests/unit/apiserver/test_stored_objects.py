"""Objects as they are stored in etcd: both media types, older versions, definitions, values by hand."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.bodies.definitions import LazyDefinitions
from bridgehead.apiserver.bodies.protobuf import MAGIC, plain_scalars
from bridgehead.apiserver.bodies.protobuf.fields import fields_of
from bridgehead.apiserver.bodies.protobuf.framing import envelope
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.resources import build_table
from bridgehead.apiserver.shapes import ListShape, MapShape, Shape, StructShape, SubschemaShape
from bridgehead.apiserver.storedobjects import STORAGE_VERSIONS, STORAGE_VERSIONS_1_20, StoredObjects
from bridgehead.apiserver.storedobjects.definitions import V1, V1BETA1, from_v1beta1, to_v1beta1
from bridgehead.apiserver.storedobjects.older_versions import OLDER_VERSIONS
from bridgehead.apiserver.storedobjects.values import MAX_BYTES
from bridgehead.media_types import JSON, PROTOBUF
from bridgehead.storage import Facts, Key, Record
from bridgehead.storage.etcd import ObjectCodec, Undecodable
from tests.unit.apiserver.fuzz_seeds import SEEDS
from tests.unit.apiserver.world import open_world

TABLE = build_table(service_cidrs=("10.96.0.0/16",), node_port_range=(30000, 32767))
SCHEMA = Schema(LazyDefinitions(), plain_scalars)
CODECS: dict[str, ObjectCodec] = {media: StoredObjects(TABLE, SCHEMA, media) for media in (JSON, PROTOBUF)}
CODEC = CODECS[JSON]
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"

# Resources with zero values that are optional, which come back from protobuf as none.
OPTIONAL_ZEROS = {
    "ipaddresses.networking.k8s.io",
    "statefulsets.apps",
    "horizontalpodautoscalers.autoscaling",
    "poddisruptionbudgets.policy",
}


def namespaced(kind: str, api_version: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": api_version, "metadata": {"name": "x", "namespace": "ns"}, **fields}


def encoded(obj: Any) -> bytes:
    return json.dumps(obj, separators=(",", ":"), ensure_ascii=False).encode()


def without_version(record: Record) -> bytes:
    obj = json.loads(record.value)
    del obj["metadata"]["resourceVersion"]
    return encoded(obj)


def without_zeros(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_zeros(one) for name, one in value.items() if one != 0 and one != ""}
    return value


def comparable(obj: Any) -> Any:
    """Return an object as it survives a conversion: autoscaling/v1 has its metric of the CPU last."""
    found = without_zeros(obj)
    if "metrics" in found.get("spec", {}):
        found["spec"]["metrics"].sort(key=lambda metric: metric["type"])
    return found


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return asyncio.run(written())


async def written() -> list[Record]:
    """Return at least one object of each resource, as the registry stored it, definitions first."""
    skipped = ("/binding", "/eviction", "/token", "/scale", "reviews", "/finalize", "a.example")
    async with open_world() as world:
        for path, body in SEEDS.items():
            if not any(word in path for word in skipped):
                assert (await world.call("POST", path, body)).status in (200, 201), path
        found = [one for resource in world.parts.table for one in world.store.list(resource.stored.id)]
    return sorted(found, key=lambda record: record.key.resource != DEFINITIONS)


# --- round trips


def test_json_of_this_server_comes_back_byte_for_byte(records: list[Record]) -> None:
    for record in records:
        obj, facts = CODEC.decode(record.key, CODEC.encode(record.key, json.loads(record.value)))
        if record.key.resource == DEFINITIONS:
            assert obj == json.loads(without_version(record))  # its fields come back in another order
        else:
            assert encoded(obj) == without_version(record), record.key
        assert facts == record.facts, record.key


def test_protobuf_of_this_server_comes_back(records: list[Record]) -> None:
    codec = CODECS[PROTOBUF]
    for record in records:
        stored = codec.encode(record.key, json.loads(record.value))
        obj, facts = codec.decode(record.key, stored)
        wanted = json.loads(without_version(record))
        if record.key.resource in OPTIONAL_ZEROS:
            obj, wanted = without_zeros(obj), without_zeros(wanted)
        assert obj == wanted, record.key
        assert facts == record.facts
        is_json = record.key.resource in (DEFINITIONS, "apiservices.apiregistration.k8s.io")
        assert stored.startswith(b"{" if is_json else MAGIC)
        # Each codec reads what the other one writes.
        assert CODEC.decode(record.key, stored)[1] == record.facts


def test_every_resource_is_tried(records: list[Record]) -> None:
    assert {one.stored.id for one in TABLE} <= {record.key.resource for record in records}


def test_stored_values_have_their_storage_version_and_no_resource_version(records: list[Record]) -> None:
    for record in records:
        obj = json.loads(record.value)
        stored = json.loads(CODEC.encode(record.key, obj))
        assert stored["apiVersion"] == STORAGE_VERSIONS.get(record.key.resource, obj["apiVersion"])
        assert stored["kind"] == obj["kind"]
        assert "resourceVersion" not in stored["metadata"]
        assert obj["metadata"]["resourceVersion"], "the argument is not changed"


@pytest.mark.parametrize("media", [JSON, PROTOBUF])
def test_kubernetes_1_20_gets_versions_that_it_knows(records: list[Record], media: str) -> None:
    codec = StoredObjects(TABLE, SCHEMA, media, STORAGE_VERSIONS_1_20)
    seen = set()
    for record in records:
        version = STORAGE_VERSIONS_1_20.get(record.key.resource)
        if version is not None:
            seen.add(record.key.resource)
            stored = codec.encode(record.key, json.loads(record.value))
            assert f'"{version}"'.encode() in stored if stored[:1] == b"{" else version.encode() in stored[:80]
            obj, facts = codec.decode(record.key, stored)
            assert comparable(obj) == comparable(json.loads(without_version(record)))
            assert facts == record.facts
    assert seen == STORAGE_VERSIONS_1_20.keys()


def test_a_version_that_nobody_knows_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"jobs\.batch can't be stored as batch/v7"):
        StoredObjects(TABLE, SCHEMA, JSON, {"jobs.batch": "batch/v7"})


@given(
    st.dictionaries(st.text(min_size=1), st.text(), max_size=3),
    st.dictionaries(st.text(min_size=1), st.text(), max_size=3),
    st.sampled_from([JSON, PROTOBUF]),
)
def test_texts_of_any_kind_come_back(data: dict[str, str], annotations: dict[str, str], media: str) -> None:
    obj = namespaced("ConfigMap", "v1")
    obj |= {"data": data} if data else {}
    obj["metadata"] |= {"annotations": annotations} if annotations else {}
    key = Key("configmaps", "ns", "x")
    assert CODECS[media].decode(key, CODECS[media].encode(key, obj))[0] == obj


def structs_of(shape: Shape, seen: dict[str, StructShape]) -> Iterator[StructShape]:
    """Yield the structs in values of a shape, each definition once."""
    match shape:
        case StructShape() if shape.definition not in seen:
            seen[shape.definition] = shape
            yield shape
            for child in shape.fields.values():
                yield from structs_of(child, seen)
        case ListShape():
            yield from structs_of(shape.items, seen)
        case MapShape():
            yield from structs_of(shape.values, seen)
        case SubschemaShape():
            yield from structs_of(shape.schema, seen)


def numbered(message: str) -> set[str]:
    fields = fields_of(message)
    return set(fields.names.values()).union(*map(numbered, fields.embedded.values()))


def test_protobuf_has_numbers_for_all_fields_of_stored_kinds() -> None:
    seen: dict[str, StructShape] = {}
    missing = {
        f"{struct.definition} {name}"
        for one in (resource.stored for resource in TABLE)
        for struct in structs_of(SCHEMA.of_kind(one.group, one.version, one.kind), seen)
        for name in struct.fields.keys() - numbered(struct.definition) - {"kind", "apiVersion"}
    }
    assert not missing


# --- default values, and fields that Go writes


def test_objects_of_older_servers_get_newer_default_values() -> None:
    ports = [{"protocol": "TCP", "port": 80, "targetPort": 80}]
    spec = {"ports": ports, "clusterIP": "10.96.0.9", "type": "ClusterIP", "sessionAffinity": "None"}
    stored = encoded(namespaced("Service", "v1", spec=spec, status={"loadBalancer": {}}))
    obj, facts = CODEC.decode(Key("services", "ns", "x"), stored)
    assert obj["spec"]["internalTrafficPolicy"] == "Cluster"
    assert obj["spec"]["clusterIPs"] == ["10.96.0.9"]
    assert (obj["spec"]["ipFamilies"], obj["spec"]["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    assert facts.claims == {"clusterip/10.96.0.9"}


def test_zero_values_that_go_always_writes_in_protobuf_are_left_out() -> None:
    # Service.spec: ports=1 (nodePort=5: 0), clusterIP=3 and loadBalancerIP=8 empty.
    port = b"\x0a\x00\x12\x03TCP\x18\x50\x28\x00"
    spec = b"\x0a" + bytes([len(port)]) + port + b"\x1a\x00" + b"\x42\x00"
    metadata = b"\x0a\x01x\x12\x00\x1a\x02ns\x22\x00"
    message = b"\x0a" + bytes([len(metadata)]) + metadata + b"\x12" + bytes([len(spec)]) + spec
    obj, _ = CODEC.decode(Key("services", "ns", "x"), envelope("v1", "Service", message))
    assert obj["metadata"] == {"name": "x", "namespace": "ns"}
    assert obj["spec"]["ports"] == [{"protocol": "TCP", "port": 80, "targetPort": 80}]
    assert "clusterIP" not in obj["spec"]
    assert "loadBalancerIP" not in obj["spec"]


@pytest.mark.parametrize(
    ("spec", "families", "policy"),
    [
        ({"clusterIP": "fd00::9"}, ["IPv6"], "SingleStack"),
        ({"clusterIP": "None", "selector": {"a": "b"}}, ["IPv4"], "SingleStack"),
        ({"clusterIP": "None"}, ["IPv4", "IPv6"], "RequireDualStack"),
        ({"type": "ExternalName", "externalName": "a.example"}, None, None),
    ],
)
def test_families_of_older_services(spec: dict[str, Any], families: list[str] | None, policy: str | None) -> None:
    obj, _ = CODEC.decode(Key("services", "ns", "x"), encoded(namespaced("Service", "v1", spec=spec)))
    assert (obj["spec"].get("ipFamilies"), obj["spec"].get("ipFamilyPolicy")) == (families, policy)


# --- older versions


def decoded(resource: str, obj: dict[str, Any], media: str = JSON) -> dict[str, Any]:
    """Return what is served of an object in an older version."""
    key = Key(resource, obj["metadata"].get("namespace", ""), "x")
    if media == JSON:
        return CODEC.decode(key, encoded(obj))[0]
    older = StoredObjects(TABLE, SCHEMA, PROTOBUF, {resource: obj["apiVersion"]})
    return CODEC.decode(key, older.encode(key, CODEC.decode(key, encoded(obj))[0]))[0]


@pytest.mark.parametrize("media", [JSON, PROTOBUF])
def test_slices_of_v1beta1_have_their_topology_in_fields(media: str) -> None:
    topology = {"kubernetes.io/hostname": "node1", "topology.kubernetes.io/zone": "z", "rack": "7"}
    endpoints = [
        {"addresses": ["10.1.0.1"], "conditions": {"ready": True}, "topology": topology},
        {"addresses": ["10.1.0.2"], "conditions": {}, "topology": topology, "nodeName": "node2"},
        {"addresses": ["10.1.0.3"], "conditions": {}, "topology": topology, "nodeName": "node1"},
        {"addresses": ["10.1.0.4"], "conditions": {}},
    ]
    obj = decoded(
        "endpointslices.discovery.k8s.io",
        namespaced("EndpointSlice", "discovery.k8s.io/v1beta1", addressType="IPv4", endpoints=endpoints),
        media,
    )
    assert obj["apiVersion"] == "discovery.k8s.io/v1"
    first, second, third, fourth = obj["endpoints"]
    assert (first["nodeName"], first["zone"], first["deprecatedTopology"]) == ("node1", "z", {"rack": "7"})
    assert second["deprecatedTopology"] == {"kubernetes.io/hostname": "node1", "rack": "7"}
    assert second["nodeName"] == "node2"
    assert third["deprecatedTopology"] == {"rack": "7"}
    assert fourth == {"addresses": ["10.1.0.4"], "conditions": {}}


@pytest.mark.parametrize("media", [JSON, PROTOBUF])
def test_ingresses_of_v1beta1_have_their_backends_in_services(media: str) -> None:
    bucket = {"resource": {"apiGroup": "a.example", "kind": "Bucket", "name": "b"}}
    paths = [
        {"path": "/a", "pathType": "Prefix", "backend": {"serviceName": "s", "servicePort": "http"}},
        {"path": "/b", "pathType": "Exact", "backend": bucket},
    ]
    spec = {
        "backend": {"serviceName": "s", "servicePort": 80},
        "rules": [{"host": "a.example", "http": {"paths": paths}}, {"host": "b.example"}],
    }
    obj = decoded("ingresses.networking.k8s.io", namespaced("Ingress", "networking.k8s.io/v1beta1", spec=spec), media)
    assert obj["apiVersion"] == "networking.k8s.io/v1"
    assert obj["spec"]["defaultBackend"] == {"service": {"name": "s", "port": {"number": 80}}}
    first, second = obj["spec"]["rules"][0]["http"]["paths"]
    assert first["backend"] == {"service": {"name": "s", "port": {"name": "http"}}}
    assert second["backend"] == bucket
    assert obj["spec"]["rules"][1] == {"host": "b.example"}


LABEL = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"
APP = {"matchLabels": {"foo": "bar"}}


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ({}, {"matchExpressions": [{"key": LABEL, "operator": "Exists"}]}),
        ({"matchExpressions": [{"key": LABEL, "operator": "DoesNotExist"}]}, {}),
        (APP, APP),
        ({**APP, "matchExpressions": [{"key": LABEL, "operator": "Exists"}]}, APP),
        (None, None),
    ],
)
def test_an_empty_selector_of_a_budget_of_v1beta1_selects_no_pod(older: Any, newer: Any) -> None:
    # The cases of pkg/apis/policy/v1beta1/conversion_test.go.
    spec = {"minAvailable": 1} | ({} if older is None else {"selector": older})
    obj = decoded("poddisruptionbudgets.policy", namespaced("PodDisruptionBudget", "policy/v1beta1", spec=spec))
    assert obj["spec"].get("selector") == newer


def test_shares_of_priority_levels_have_another_name() -> None:
    limited = {"assuredConcurrencyShares": 7, "limitResponse": {"type": "Reject"}}
    obj = {
        "kind": "PriorityLevelConfiguration",
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1beta1",
        "metadata": {"name": "x"},
        "spec": {"type": "Limited", "limited": limited},
    }
    for media in (JSON, PROTOBUF):
        found = decoded("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", obj, media)
        assert found["spec"]["limited"]["nominalConcurrencyShares"] == 7
        assert "assuredConcurrencyShares" not in found["spec"]["limited"]


def test_autoscalers_of_v1_have_one_metric() -> None:
    target = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
    spec = {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50}
    for media in (JSON, PROTOBUF):
        obj = decoded(
            "horizontalpodautoscalers.autoscaling",
            namespaced("HorizontalPodAutoscaler", "autoscaling/v1", spec=spec, status={"currentReplicas": 1}),
            media,
        )
        metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
        assert obj["spec"]["metrics"] == [{"type": "Resource", "resource": metric}]


def test_conditions_of_requests_of_v1beta1_are_true() -> None:
    obj = {
        "kind": "CertificateSigningRequest",
        "apiVersion": "certificates.k8s.io/v1beta1",
        "metadata": {"name": "x"},
        "spec": {"request": "AA==", "signerName": "a.example/s", "usages": ["any"]},
        "status": {"conditions": [{"type": "Approved"}]},
    }
    found = decoded("certificatesigningrequests.certificates.k8s.io", obj)
    assert [one["status"] for one in found["status"]["conditions"]] == ["True"]


@pytest.mark.parametrize("media", [JSON, PROTOBUF])
def test_all_versions_of_all_kinds_can_be_written_and_read(records: list[Record], media: str) -> None:
    for record in records:
        for older in OLDER_VERSIONS.get(record.key.resource, ()):
            codec = StoredObjects(TABLE, SCHEMA, media, {record.key.resource: older.api_version})
            obj, facts = CODEC.decode(record.key, codec.encode(record.key, json.loads(record.value)))
            assert comparable(obj) == comparable(json.loads(without_version(record))), older.api_version
            assert facts == record.facts


# --- definitions, by the cases of apiextensions/v1/conversion_test.go


def crd(api_version: str, **spec: Any) -> dict[str, Any]:
    return {"kind": "CustomResourceDefinition", "apiVersion": api_version, "metadata": {"name": "x"}, "spec": spec}


V1_VERSION = {"name": "v1", "served": True, "storage": True}
V2_VERSION = {"name": "v2", "served": True, "storage": False}
OBJECT_SCHEMA = {"openAPIV3Schema": {"type": "object"}}
OTHER_SCHEMA = {"openAPIV3Schema": {"type": "object", "description": "v2"}}
SCALE = {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}
COLUMN, OLDER_COLUMN = {"name": "c", "jsonPath": ".a"}, {"name": "c", "JSONPath": ".a"}
FIELD = [{"jsonPath": ".spec.host"}]
CONFIG = {"url": "https://a.example"}


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ({}, {}),
        ({"versions": [V1_VERSION]}, {"version": "v1", "versions": [V1_VERSION]}),
        (
            {"versions": [{**V1_VERSION, "schema": OBJECT_SCHEMA}, {**V2_VERSION, "schema": OBJECT_SCHEMA}]},
            {"version": "v1", "versions": [V1_VERSION, V2_VERSION], "validation": OBJECT_SCHEMA},
        ),
        (
            {"versions": [{**V1_VERSION, "schema": OBJECT_SCHEMA}, {**V2_VERSION, "schema": OTHER_SCHEMA}]},
            {
                "version": "v1",
                "versions": [{**V1_VERSION, "schema": OBJECT_SCHEMA}, {**V2_VERSION, "schema": OTHER_SCHEMA}],
            },
        ),
        (
            {"versions": [{**V1_VERSION, "subresources": SCALE}, {**V2_VERSION, "subresources": SCALE}]},
            {"version": "v1", "versions": [V1_VERSION, V2_VERSION], "subresources": SCALE},
        ),
        (
            {"versions": [{**V1_VERSION, "subresources": SCALE}, V2_VERSION]},
            {"version": "v1", "versions": [{**V1_VERSION, "subresources": SCALE}, V2_VERSION]},
        ),
        (
            {"versions": [{**V1_VERSION, "additionalPrinterColumns": [COLUMN]}]},
            {"version": "v1", "versions": [V1_VERSION], "additionalPrinterColumns": [OLDER_COLUMN]},
        ),
        (
            {"versions": [{**V1_VERSION, "additionalPrinterColumns": [COLUMN]}, V2_VERSION]},
            {"version": "v1", "versions": [{**V1_VERSION, "additionalPrinterColumns": [OLDER_COLUMN]}, V2_VERSION]},
        ),
        (
            {"versions": [{**V1_VERSION, "schema": OBJECT_SCHEMA, "selectableFields": FIELD}]},
            {"version": "v1", "versions": [V1_VERSION], "validation": OBJECT_SCHEMA, "selectableFields": FIELD},
        ),
        (
            # Selectable fields of all versions need one schema of all versions.
            {
                "versions": [
                    {**V1_VERSION, "schema": OBJECT_SCHEMA, "selectableFields": FIELD},
                    {**V2_VERSION, "schema": OTHER_SCHEMA, "selectableFields": FIELD},
                ]
            },
            {
                "version": "v1",
                "versions": [
                    {**V1_VERSION, "schema": OBJECT_SCHEMA, "selectableFields": FIELD},
                    {**V2_VERSION, "schema": OTHER_SCHEMA, "selectableFields": FIELD},
                ],
            },
        ),
        (
            {
                "conversion": {
                    "strategy": "Webhook",
                    "webhook": {"clientConfig": CONFIG, "conversionReviewVersions": ["v1"]},
                }
            },
            {
                "conversion": {
                    "strategy": "Webhook",
                    "webhookClientConfig": CONFIG,
                    "conversionReviewVersions": ["v1"],
                }
            },
        ),
    ],
)
def test_definitions_become_v1beta1_and_come_back(newer: dict[str, Any], older: dict[str, Any]) -> None:
    before = copy.deepcopy(newer)
    assert to_v1beta1(crd(V1, **newer)) == crd(V1BETA1, **older, preserveUnknownFields=False)
    assert newer == before
    back = from_v1beta1(crd(V1BETA1, **older, preserveUnknownFields=False))["spec"]
    assert back == {"scope": "Namespaced", "conversion": {"strategy": "None"}, **newer}


def test_definitions_of_v1beta1_get_its_default_values() -> None:
    service = {"namespace": "ns", "name": "s"}
    conversion = {"strategy": "Webhook", "webhookClientConfig": {"service": service}}
    found = from_v1beta1(crd(V1BETA1, version="v1", conversion=conversion))
    assert found["spec"] == {
        "scope": "Namespaced",
        "versions": [V1_VERSION],
        "preserveUnknownFields": True,
        "conversion": {
            "strategy": "Webhook",
            "webhook": {"clientConfig": {"service": {**service, "port": 443}}, "conversionReviewVersions": ["v1beta1"]},
        },
    }
    assert found["status"]["storedVersions"] == ["v1"]


# --- custom resources


WIDGETS = Key("widgets.example.com", "ns", "x")


def learned() -> StoredObjects:
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    versions = [
        {**V1_VERSION, "schema": OBJECT_SCHEMA, "selectableFields": FIELD},
        {**V2_VERSION, "schema": OTHER_SCHEMA, "selectableFields": [{"jsonPath": ".spec.other"}]},
    ]
    definition = crd(V1, group="example.com", names=names, scope="Namespaced", versions=versions)
    definition["metadata"]["name"] = "widgets.example.com"
    codec, key = StoredObjects(TABLE, SCHEMA), Key(DEFINITIONS, "", "widgets.example.com")
    codec.decode(key, StoredObjects(TABLE, SCHEMA).encode(key, definition))
    return codec


def test_custom_resources_have_the_selectable_fields_of_their_version() -> None:
    codec, spec = learned(), {"host": True, "other": "b", "nothing": None}
    for version, field in (("v1", {"spec.host": "true"}), ("v2", {"spec.other": "b"}), ("v0", {"spec.host": "true"})):
        obj = namespaced("Widget", f"example.com/{version}", spec=spec)
        found, facts = codec.decode(WIDGETS, codec.encode(WIDGETS, obj))
        assert found == obj
        assert facts == Facts({}, {"metadata.name": "x", "metadata.namespace": "ns", **field})


def test_custom_resources_without_a_definition_are_read() -> None:
    obj = namespaced("Widget", "example.com/v1", spec={"host": "a"})
    assert StoredObjects(TABLE, SCHEMA).decode(WIDGETS, encoded(obj))[1].fields.keys() == {
        "metadata.name",
        "metadata.namespace",
    }


# --- values by hand


POD, WIDGET = Key("pods", "ns", "x"), WIDGETS


@pytest.mark.parametrize(
    ("key", "stored", "reason"),
    [
        (POD, b"", "an empty value"),
        (POD, b"hello", "neither JSON nor protobuf"),
        (POD, b"[]", "neither JSON nor protobuf"),
        (POD, b"{", "not JSON: Input data was truncated"),
        (POD, b'{"kind":"\xff"}', "not JSON"),
        (POD, b"{}", "Object 'Kind' is missing"),
        (POD, b'{"kind":"Pod"}', "Object 'apiVersion' is missing"),
        (POD, b'{"kind":1,"apiVersion":2}', "Object 'Kind' is missing"),
        (POD, encoded(namespaced("Secret", "v1")), "kind Secret in version v1 is not known"),
        (POD, encoded(namespaced("Pod", "v2\n\x1b[1m")), "kind Pod in version v2??[1m is not known"),
        (POD, b'{"kind":"Pod","apiVersion":"v1"}', "metadata.name is missing"),
        (POD, b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}', "metadata.namespace is missing"),
        (
            POD,
            encoded(namespaced("Pod", "v1", spec=[])),
            "Pod: json: cannot unmarshal array into Go struct field Pod.spec",
        ),
        (POD, b'{"a":' * 10_001 + b"1" + b"}" * 10_001, "JSON that is nested too deeply"),
        (POD, b"{" + b" " * MAX_BYTES + b"}", f"{MAX_BYTES + 2} bytes, which are more than {MAX_BYTES}"),
        (POD, MAGIC, "Object 'Kind' is missing"),
        (POD, MAGIC + b"\x0a\xff", "not a protobuf message of Pod"),
        (POD, envelope("v1", "Pod", b"\x0a\x05x"), "not a protobuf message of Pod: a field is cut off"),
        (POD, envelope("v1", "Secret", b""), "kind Secret in version v1 is not known"),
        (POD, b"k8s:enc:aescbc:v1:key1:x", "neither JSON nor protobuf"),
        (WIDGET, envelope("example.com/v1", "Widget", b""), "a custom resource in protobuf"),
        (WIDGET, encoded(namespaced("Gadget", "example.com/v1")), "kind Gadget in version example.com/v1 is not known"),
        (WIDGET, encoded(namespaced("Widget", "v1")), "kind Widget in version v1 is not known"),
        (WIDGET, b'{"kind":"Widget","apiVersion":"example.com/v1"}', "metadata: "),
        (WIDGET, b'{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"labels":[]}}', "metadata: "),
    ],
)
def test_values_by_hand_are_refused_in_one_line(key: Key, stored: bytes, reason: str) -> None:
    with pytest.raises(Undecodable) as refused:
        learned().decode(key, stored)
    assert str(refused.value).startswith(reason)
    assert str(refused.value).isprintable()


def test_deep_schemas_are_refused() -> None:
    definition = encoded(crd(V1BETA1, version="v1", validation={"openAPIV3Schema": {"description": "deep"}}))
    stored = definition.replace(b'{"description":"deep"}', b'{"properties":{"a":' * 2000 + b"{}" + b"}}" * 2000)
    with pytest.raises(Undecodable, match="nested too deeply"):
        CODEC.decode(Key(DEFINITIONS, "", "x"), stored)


def test_names_of_the_object_count_as_in_kubernetes() -> None:
    stored = encoded(namespaced("ConfigMap", "v1", data={"a": "b"}))
    obj, facts = CODEC.decode(Key("configmaps", "other", "other"), stored)
    assert obj["metadata"] == {"name": "x", "namespace": "ns"}
    assert facts.fields == {"metadata.name": "x", "metadata.namespace": "ns"}


def test_what_is_never_stored_and_unknown_fields_are_dropped() -> None:
    obj = namespaced("ConfigMap", "v1", unknown=1)
    obj["metadata"] |= {"resourceVersion": "7", "selfLink": "/a"}
    found, _ = CODEC.decode(Key("configmaps", "ns", "x"), encoded(obj))
    assert found == namespaced("ConfigMap", "v1")

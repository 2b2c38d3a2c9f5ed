"""Bodies against the API's schema, and the error texts."""

from __future__ import annotations

from threading import Thread

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.apiserver.bodies.definitions import load_definitions
from bridgehead.apiserver.bodies.duplicates import duplicate_fields, duplicate_lines, field_problems, problems_in_order
from bridgehead.apiserver.bodies.protobuf import plain_scalars
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.errors import SchemaMismatch
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources import build_table
from bridgehead.apiserver.shapes import KEYED, LEAF, MAP, ListShape, conform

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["spec", "metadata", "ports", "name", "x"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@pytest.fixture(scope="module")
def schema() -> Schema:
    return Schema(load_definitions(), plain_scalars)


@pytest.mark.parametrize(
    ("kind", "value", "kept", "unknown"),
    [
        ("Service", {"spec": {"type": None, "ports": [{"port": 80}]}}, {"spec": {"ports": [{"port": 80}]}}, []),
        ("Service", {"spec": {"foo": 1}, "bar": {}}, {"spec": {}}, ["spec.foo", "bar"]),
        (
            "Service",
            {"spec": {"ports": [{"port": 80}, {"port": 81, "foo": 1}]}},
            {"spec": {"ports": [{"port": 80}, {"port": 81}]}},
            ["spec.ports[1].foo"],
        ),
        ("ConfigMap", {"metadata": {"labels": {"a": None}}}, {"metadata": {"labels": {"a": ""}}}, []),
        ("ConfigMap", {"metadata": {"labels": {}, "finalizers": []}}, {"metadata": {}}, []),
        ("ConfigMap", {"immutable": False}, {"immutable": False}, []),
        ("Service", {"spec": {"clusterIP": "", "publishNotReadyAddresses": False}}, {"spec": {}}, []),
        (
            "Service",
            {"spec": {"allocateLoadBalancerNodePorts": False}},
            {"spec": {"allocateLoadBalancerNodePorts": False}},
            [],
        ),
        ("Pod", {"spec": {"containers": [None]}}, {"spec": {"containers": [{}]}}, []),
        ("Pod", {"spec": {"containers": [{"name": ""}]}}, {"spec": {"containers": [{"name": ""}]}}, []),
        (
            "Pod",
            {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": 1, "memory": 0.5}}}]}},
            {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1", "memory": "500m"}}}]}},
            [],
        ),
        (
            "Pod",
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            [],
        ),
        ("Secret", {"data": {"a": "Yg=="}}, {"data": {"a": "Yg=="}}, []),
        ("Secret", {"data": {"a": [104, 105], "b": []}}, {"data": {"a": "aGk=", "b": ""}}, []),
    ],
)
def test_known_fields_are_kept_and_unknown_ones_reported(schema, kind, value, kept, unknown):
    assert conform(value, schema.of_kind("", "v1", kind)) == (kept, unknown)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (
            "Service",
            {"spec": {"ports": [{"port": "80"}]}},
            "json: cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32",
        ),
        (
            "Service",
            {"spec": {"ports": [{"port": 1.5}]}},
            "json: cannot unmarshal number 1.5 into Go struct field ServicePort.spec.ports.port of type int32",
        ),
        (
            "Service",
            {"spec": {"ports": [{"port": 2**31}]}},
            "json: cannot unmarshal number 2147483648 into Go struct field ServicePort.spec.ports.port of type int32",
        ),
        (
            "Service",
            {"spec": {"ports": {}}},
            "json: cannot unmarshal object into Go struct field ServiceSpec.spec.ports of type []v1.ServicePort",
        ),
        (
            "Service",
            {"spec": "x"},
            "json: cannot unmarshal string into Go struct field Service.spec of type v1.ServiceSpec",
        ),
        (
            "ConfigMap",
            {"metadata": {"labels": {"a": 1}}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            "ConfigMap",
            {"metadata": {"labels": "a"}},
            "json: cannot unmarshal string into Go struct field ObjectMeta.metadata.labels of type map[string]string",
        ),
        (
            "ConfigMap",
            {"immutable": 1},
            "json: cannot unmarshal number into Go struct field ConfigMap.immutable of type bool",
        ),
        (
            "Pod",
            {"spec": {"containers": [{"env": [{"name": "A", "value": 8080}]}]}},
            "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string",
        ),
        ("Secret", {"data": {"a": "b!"}}, "illegal base64 data at input byte 1"),
        (
            "Secret",
            {"data": {"a": [256]}},
            "json: cannot unmarshal array into Go struct field Secret.data of type []uint8",
        ),
        (
            "Pod",
            {"spec": {"containers": [{"resources": {"limits": {"cpu": "a lot"}}}]}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            "ConfigMap",
            {"metadata": {"creationTimestamp": "2026-13-01T00:00:00Z"}},
            'parsing time "2026-13-01T00:00:00Z": month out of range',
        ),
        (
            "ConfigMap",
            {"metadata": {"creationTimestamp": "today"}},
            'parsing time "today" as "2006-01-02T15:04:05Z07:00": cannot parse "today" as "2006"',
        ),
    ],
)
def test_type_mismatches_have_kubernetes_messages(schema, kind, value, message):
    with pytest.raises(SchemaMismatch) as caught:
        conform(value, schema.of_kind("", "v1", kind))
    assert str(caught.value) == message


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["spec", "metadata", "status", "x"]), JSON))
def test_conforming_is_idempotent(schema, value):
    shape = schema.of_kind("", "v1", "Service")
    try:
        kept, _ = conform(value, shape)
    except SchemaMismatch:
        return
    assert conform(kept, shape) == (kept, [])


def test_every_served_kind_has_a_schema(schema):
    for resource in build_table(service_cidrs=("10.96.0.0/12",), node_port_range=(30000, 32767)):
        shape = schema.of_kind(resource.group, resource.version, resource.kind)
        assert "metadata" in shape.fields


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        (b'{"a": 1, "b": {"a": 1}}', []),
        (b'{"a":1,"b":{"a":1}}\n', []),
        (b'{"a":1,"a":1}', ["a"]),
        (b'{"a": 1, "a": 2}', ["a"]),
        (b'{"a": [{"b": 1}, {"b": 1, "b": 2, "b": 3}], "c": {"d": 1, "d": 1}}', ["a[1].b", "c.d"]),
    ],
)
def test_duplicate_fields_are_reported(body, paths):
    assert duplicate_fields(body, msgspec.json.decode(body)) == paths


def test_problems_are_in_the_order_of_the_body():
    body = b'{"a": 1, "x": {"a": 1}, "a": 2, "b": [{"y": 1, "c": 1, "c": 2}], "x": 3}'
    assert problems_in_order(body, ["x", "b[0].y"]) == [
        'unknown field "x"',
        'duplicate field "a"',
        'unknown field "b[0].y"',
        'duplicate field "b[0].c"',
    ]


def test_at_most_a_hundred_problems_are_named():
    assert len(field_problems([], [f"f{number}" for number in range(150)])) == 100


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (b"a: 1\nb: {a: 1}\n", []),
        (b"\na: 1\nb:\n- c: 1\n  c: 2\n- d: &x {e: 1}\na:\n  f: *x\n", [(5, "c"), (8, "a")]),
    ],
)
def test_duplicate_keys_of_yaml_are_reported_with_their_lines(body, lines):
    texts = [f'\n  line {line}: key "{key}" already set in map' for line, key in lines]
    assert duplicate_lines(body) == ("yaml: unmarshal errors:" + "".join(texts) if texts else "")


def test_schemas_inside_of_schemas_are_checked(schema):
    shape = schema.of_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")

    def declared(properties):
        versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": properties}}]
        obj, unknown = conform({"spec": {"versions": versions}}, shape)
        return obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"], unknown

    base = "spec.versions[0].schema.openAPIV3Schema"
    assert declared({"items": {"type": None, "typo": 1}}) == ({"items": {}}, [f"{base}.items.typo"])
    assert declared({"items": [{"typo": 1}]}) == ({"items": [{}]}, [f"{base}.items[0].typo"])
    nested = {"additionalProperties": {"items": {"additionalProperties": {"typo": 1}}}}
    unknown = f"{base}.additionalProperties.items.additionalProperties.typo"
    assert declared(nested) == ({"additionalProperties": {"items": {"additionalProperties": {}}}}, [unknown])
    assert declared({"additionalProperties": False}) == ({"additionalProperties": False}, [])
    # encoding/json writes floats so.
    numbers, _ = declared({"minimum": 5.0, "maximum": 0.5, "multipleOf": 1e300})
    assert msgspec.json.encode(numbers) == b'{"minimum":5,"maximum":0.5,"multipleOf":1e300}'
    assert (
        shape.child("spec")
        .child("versions")
        .items.child("schema")
        .child("openAPIV3Schema")
        .child("items")
        .child("additionalProperties")
        .child("type")
        .go
        == "string"
    )
    for wrong, text in (
        (
            {"additionalProperties": {"maxItems": "x"}},
            "cannot unmarshal string into .*additionalProperties.maxItems of type int64$",
        ),
        ({"items": {"type": 5}}, "cannot unmarshal number into .*items.type of type string$"),
        ({"additionalProperties": "x"}, "^boolean or JSON schema expected"),
        ({"items": True}, "^list or JSON schema expected"),
    ):
        with pytest.raises(SchemaMismatch, match=text):
            declared(wrong)


def test_patches_and_applies_merge_lists_by_other_keys(schema: Schema):
    ports = schema.of_kind("", "v1", "Service").child("spec").child("ports")
    assert isinstance(ports, ListShape)
    assert (ports.merges, ports.merge_key, ports.relation, ports.keys) == (True, "port", KEYED, ("port", "protocol"))
    host_ips = schema.of_kind("", "v1", "Pod").child("status").child("hostIPs")
    assert isinstance(host_ips, ListShape)
    assert (host_ips.merges, host_ips.merge_key, host_ips.relation) == (True, "ip", LEAF)


def test_a_field_may_be_granular_though_its_type_is_atomic(schema: Schema):
    assert schema.of_definition("io.k8s.api.core.v1.ObjectReference").relation == LEAF
    claim = schema.of_kind("", "v1", "PersistentVolume").child("spec").child("claimRef")
    assert (claim.relation, "namespace" in claim.fields) == (MAP, True)


def test_no_thread_gets_a_shape_that_is_being_compiled():
    fields: list[set[str]] = []

    class Definitions(dict[str, JsonObject]):
        def __getitem__(self, name: str) -> JsonObject:
            if name == "x.v1.Inner":
                other.start()  # while the outer struct has no fields
            return super().__getitem__(name)

    inner, outer = {"a": {"type": "string"}}, {"inner": {"$ref": "#/$defs/x.v1.Inner"}}
    schema = Schema(Definitions({"x.v1.Inner": {"properties": inner}, "x.v1.Outer": {"properties": outer}}))
    other = Thread(target=lambda: fields.append(set(schema.of_definition("x.v1.Outer").fields)))
    assert set(schema.of_definition("x.v1.Outer").fields) == {"inner"}
    other.join()
    assert fields == [{"inner"}]

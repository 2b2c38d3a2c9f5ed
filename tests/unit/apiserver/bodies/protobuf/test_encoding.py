"""Encoding in protobuf: every kind that is served comes back as it was, and bytes are those that Go writes."""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.bodies.definitions import LazyDefinitions
from bridgehead.apiserver.bodies.protobuf import Encoder, decode_message_untrusted, plain_scalars
from bridgehead.apiserver.bodies.protobuf.fields import fields_of
from bridgehead.apiserver.bodies.protobuf.objects import is_encodable
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.resources import build_table
from bridgehead.apiserver.shapes import (
    ANYTHING,
    BoolShape,
    BytesShape,
    IntOrStringShape,
    IntShape,
    JsonShape,
    ListShape,
    MapShape,
    NumberShape,
    QuantityShape,
    Shape,
    StringShape,
    StructShape,
    SubschemaShape,
    TimeShape,
)

TABLE = build_table(service_cidrs=("10.96.0.0/12",), node_port_range=(30000, 32767))
SCHEMA = Schema(LazyDefinitions(), plain_scalars)
ENCODER = Encoder()
# Kinds that are no resources: their objects are answers.
OTHERS = [
    ("", "v1", "Status"),
    ("", "v1", "APIResourceList"),
    ("", "v1", "APIGroupList"),
    ("", "v1", "APIVersions"),
    ("", "v1", "Binding"),
    ("autoscaling", "v1", "Scale"),
    ("policy", "v1", "Eviction"),
    ("authentication.k8s.io", "v1", "TokenRequest"),
    ("authentication.k8s.io", "v1", "TokenReview"),
    ("authentication.k8s.io", "v1", "SelfSubjectReview"),
    ("authorization.k8s.io", "v1", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "v1", "SelfSubjectRulesReview"),
    ("authorization.k8s.io", "v1", "SubjectAccessReview"),
    ("apiregistration.k8s.io", "v1", "APIService"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
    ("certificates.k8s.io", "v1", "CertificateSigningRequest"),
    ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy"),
]
KINDS = [*((r.group, r.version, r.kind) for r in TABLE), *OTHERS]
_DEPTH = 12


def made(shape: Shape, source: random.Random, share: float, depth: int = 0) -> Any:
    """Return a value of a shape with a share of its fields; 1.0 is all of them."""
    text = source.choice(["", "a", "ü\0", "x" * 200])
    match shape:
        case StructShape():
            chosen = {name: child for name, child in shape.fields.items() if source.random() < share}
            if depth > _DEPTH:
                return {}
            if shape.name == "JSONSchemaProps":
                share /= 3  # it contains itself
            return {name: made(child, source, share, depth + 1) for name, child in chosen.items()}
        case ListShape():
            return [made(shape.items, source, share, depth + 1) for _ in range(source.choice([1, 2]))]
        case MapShape():
            return {key: made(shape.values, source, share, depth + 1) for key in ("", "a", "k8s.io/é")}
        case BoolShape():
            return source.choice([True, False])
        case IntShape():
            limit = 31 if shape.go == "int32" else 63
            return source.choice([0, 1, -1, 127, 128, 2**limit - 1, -(2**limit)])
        case NumberShape():
            return source.choice([0.0, -1.5, 1e300])
        case TimeShape():
            fraction = source.choice(["000001", "999999"])
            day = source.choice(["1969-12-31", "2026-11-21", "2100-01-01"])
            return f"{day}T03:48:41.{fraction}Z" if shape.go.endswith("MicroTime") else f"{day}T03:48:41Z"
        case BytesShape():
            return base64.b64encode(source.randbytes(source.choice([0, 1, 300]))).decode()
        case StringShape():
            return text
        case IntOrStringShape():
            return source.choice([0, 8080, -1, "http", ""])
        case QuantityShape():
            return source.choice(["0", "100m", "1Gi"])
        case JsonShape():
            return source.choice([{"f:spec": {"f:a": {}}}, "text", 0, False, [1, "a"], {}])
        case SubschemaShape():
            return made(source.choice([shape.schema, shape.other]), source, share, depth + 1)
    return None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: ".".join(filter(None, kind)))
def test_every_kind_comes_back_as_it_was(kind):
    shape: Any = SCHEMA.of_kind(*kind)
    assert is_encodable(shape)
    source = random.Random(".".join(kind))
    for share in (1.0, 0.5, 0.2):
        obj = made(shape, source, share)
        expected = {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}
        assert decode_message_untrusted(ENCODER.message(obj, shape), shape) == without_types(expected, shape)


def without_types(value: Any, shape: Shape) -> Any:
    """Return a value without the kinds of objects in it, which protobuf does not have."""
    if isinstance(shape, StructShape):
        names = _names(shape)
        return {key: without_types(item, shape.fields[key]) for key, item in value.items() if key in names}
    if isinstance(shape, ListShape):
        return [without_types(item, shape.items) for item in value]
    if isinstance(shape, MapShape):
        return {key: without_types(item, shape.values) for key, item in value.items()}
    if isinstance(shape, SubschemaShape):
        return without_types(value, shape.schema if isinstance(value, dict) else shape.other)
    return value


def _names(shape: StructShape) -> set[str]:
    """Return the fields that protobuf has; those that it lacks are the types of objects."""
    names = set(shape.fields)
    if "kind" in names and "apiVersion" in names and not _numbered(shape.definition, "kind"):
        names -= {"kind", "apiVersion"}
    return names


def _numbered(definition: str, name: str) -> bool:
    numbers = fields_of(definition)
    return name in numbers.names.values() or any(_numbered(inner, name) for inner in numbers.embedded.values())


def test_every_field_of_every_kind_has_a_number():
    """A field without one would be missing from answers in protobuf."""
    missing: set[str] = set()
    seen: set[str] = set()

    def look(shape: Shape) -> None:
        if isinstance(shape, ListShape):
            look(shape.items)
        elif isinstance(shape, MapShape):
            look(shape.values)
        elif isinstance(shape, SubschemaShape):
            look(shape.schema)
        elif isinstance(shape, StructShape) and shape.definition not in seen:
            seen.add(shape.definition)
            for name, child in shape.fields.items():
                if name in _names(shape) and (child is ANYTHING or not _numbered(shape.definition, name)):
                    missing.add(f"{shape.definition}.{name}")
                look(child)

    for kind in KINDS:
        look(SCHEMA.of_kind(*kind))
    assert len(seen) > 300
    assert missing == set()


@pytest.mark.parametrize(
    ("kind", "obj", "expected"),
    [
        pytest.param("ConfigMap", {"data": {"b": "2", "a": ""}}, "12050a0161120012060a0162120132", id="map"),
        pytest.param("Secret", {"data": {"k": "AP8="}}, "12070a016b120200ff", id="bytes"),
        pytest.param("Service", {"spec": {"ports": [{"port": 80}]}}, "12040a021850", id="number"),
        pytest.param(
            "Service",
            {"spec": {"ports": [{"targetPort": "http"}, {"targetPort": 0}]}},
            "12120a0a220808011a04687474700a0422021000",
            id="int or string",
        ),
        pytest.param(
            "Pod", {"spec": {"terminationGracePeriodSeconds": -1}}, "120b20ffffffffffffffffff01", id="negative"
        ),
        pytest.param(
            "Pod", {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}, "12090a070a017612021200", id="embedded"
        ),
        pytest.param(
            "ControllerRevision",
            {"data": {"a": "<"}},
            "12100a0e" + b'{"a":"\\u003c"}'.hex(),
            id="JSON as Go encodes it",
        ),
        pytest.param(
            "APIResourceList", {"resources": [{"verbs": ["get"]}]}, "120722050a03676574", id="list that is a message"
        ),
    ],
)
def test_bytes_are_those_of_the_protobuf_encoding(kind, obj, expected):
    """Written out by hand from generated.proto."""
    group = "apps" if kind == "ControllerRevision" else ""
    shape: Any = SCHEMA.of_kind(group, "v1", kind)
    assert ENCODER.message(obj, shape).hex() == expected


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_integers_come_back(number):
    shape: Any = SCHEMA.of_kind("", "v1", "Pod")
    obj = {"metadata": {"generation": number}}
    assert decode_message_untrusted(ENCODER.message(obj, shape), shape) == obj


def test_nulls_are_left_out():
    shape: Any = SCHEMA.of_kind("", "v1", "Pod")
    assert ENCODER.message({"metadata": {"creationTimestamp": None, "name": "a"}}, shape).hex() == "0a030a0161"

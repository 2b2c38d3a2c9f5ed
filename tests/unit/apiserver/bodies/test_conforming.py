"""Tests of `bodies.conforming`: types in C accept no value that the shapes would refuse, change or report."""

from __future__ import annotations

import itertools
import json
from typing import Any

import msgspec
import pytest

from bridgehead.apiserver import shapes
from bridgehead.apiserver.bodies.conforming import conform, decode_exact, decode_true, exact_type
from bridgehead.apiserver.bodies.definitions import LazyDefinitions
from bridgehead.apiserver.bodies.protobuf.fields import plain_scalars
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.errors import SchemaMismatch
from bridgehead.apiserver.shapes import Shape, StructShape

SCHEMA = Schema(LazyDefinitions(), plain_scalars)
POD = SCHEMA.of_kind("", "v1", "Pod")
SERVICE = SCHEMA.of_kind("", "v1", "Service")
DEFINITION = SCHEMA.of_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


def service(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80, "targetPort": "http"}], **spec}}


def pod(**container: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", **container}]}}


def is_exact(value: Any, shape: Shape) -> bool:
    assert isinstance(shape, StructShape)
    try:
        return bool(msgspec.convert(value, exact_type(shape), dec_hook=decode_true) == value)
    except msgspec.ValidationError:
        return False


EXACT = [
    (service(selector={"app": "web"}, type="ClusterIP", allocateLoadBalancerNodePorts=False), SERVICE),
    ({"metadata": {"managedFields": [{"fieldsV1": {"f:spec": {}}}], "creationTimestamp": "2026-02-28T23:59:59Z"}}, POD),
    *(({"metadata": {"creationTimestamp": f"2026-{day}T00:00:00Z"}}, POD) for day in ("01-31", "04-30", "11-29")),
    (pod(resources={"requests": {"cpu": "100m", "memory": "64Mi"}}, ports=[{"containerPort": 80}]), POD),
    ({"metadata": {"managedFields": []}}, POD),
    (pod(tty=True, volumeMounts=[{"name": "a", "mountPath": "/a", "readOnly": True}]), POD),
]

# Values that are stored in another form, or refused, or whose check is left to the shapes.
OTHERS = [
    (service(selector=None), SERVICE),
    (service(colour="red"), SERVICE),
    (service(selector={}), SERVICE),
    (service(ports=[]), SERVICE),
    (service(type=""), SERVICE),
    (service(ports=[{"port": 80.0}]), SERVICE),
    (service(ports=[{"port": True}]), SERVICE),
    (service(ports=[{"port": 2**31}]), SERVICE),
    (service(ports=[{"port": 80, "nodePort": 0}]), SERVICE),
    (service(ports=[{"port": 80, "targetPort": 2**31}]), SERVICE),
    (service(selector={"app": None}), SERVICE),
    (service(selector={"app": 1}), SERVICE),
    (service(selector=["app"]), SERVICE),
    (service(publishNotReadyAddresses=False), SERVICE),
    (pod(resources={"requests": {"cpu": "0.5"}}), POD),
    (pod(resources={"requests": {"cpu": 1}}), POD),
    (pod(tty=False), POD),
    (pod(tty=1), POD),
    (pod(command=["a", None]), POD),
    ({"metadata": {"creationTimestamp": "2026-02-30T00:00:00Z"}}, POD),
    ({"metadata": {"creationTimestamp": "2026-04-31T00:00:00Z"}}, POD),
    ({"metadata": {"creationTimestamp": "2026-02-20T00:00:0\u0663Z"}}, POD),  # a digit, but none of ASCII
    ({"metadata": {"managedFields": [{"fieldsV1": None}]}}, POD),
    ({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {"a": {"x": 1}}}}}]}}, DEFINITION),
    ({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"items": {"type": "string"}}}}]}}, DEFINITION),
]


def outcome(check: Any, value: Any, shape: Shape) -> Any:
    try:
        return msgspec.json.encode(check(value, shape))
    except SchemaMismatch as mismatch:
        return str(mismatch)


@pytest.mark.parametrize(("value", "shape"), EXACT)
def test_usual_values_are_exact(value: Any, shape: Shape) -> None:
    assert is_exact(value, shape)
    assert shapes.conform(value, shape) == (value, [])


@pytest.mark.parametrize(("value", "shape"), OTHERS)
def test_others_are_left_to_the_shapes(value: Any, shape: Shape) -> None:
    assert not is_exact(value, shape)


@pytest.mark.parametrize(("value", "shape"), EXACT + OTHERS)
def test_the_result_is_that_of_the_shapes(value: Any, shape: Shape) -> None:
    for _ in range(20):  # before and after the type is compiled
        assert outcome(conform, value, shape) == outcome(shapes.conform, value, shape)
    assert isinstance(shape, StructShape)
    assert shape.decoder is not None


def test_bodies_that_equal_their_encoding_are_decoded() -> None:
    body = msgspec.json.encode(service())
    assert decode_exact(body, SCHEMA.of_kind("", "v1", "Node")) is None  # whose type is not compiled
    for _ in range(20):
        conform(service(), SERVICE)
    assert decode_exact(body + b" \n", SERVICE) == service()
    spaced, indented = json.dumps(service()).encode(), json.dumps(service(), indent=4).encode()
    assert decode_exact(spaced, SERVICE) == decode_exact(indented, SERVICE) == service()
    others = (
        body.replace(b'"name":"web"', b'"name":"a","name":"web"'),
        spaced.replace(b'"name": "web"', b'"name": "web", "name": "web"'),
        b"[]",
        b"",
        b"{",
        b"\xff",
        b'{"kind":"\xff"}',
        b'{"spec":' * 5000,
        body.replace(b"80", b"8e1"),
    )
    assert [decode_exact(other, SERVICE) for other in others] == [None] * len(others)
    for value, shape in OTHERS:
        assert decode_exact(msgspec.json.encode(value), shape) is None


def test_the_result_is_a_copy() -> None:
    value = service()
    for _ in range(20):
        kept, _ = conform(value, SERVICE)
    kept["spec"]["ports"][0]["port"] = 81
    assert value == service()


def test_a_deeply_nested_value_is_no_error() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"f:a": deep}
    value = {"metadata": {"managedFields": [{"fieldsV1": deep}]}}
    for _ in range(20):
        kept, unknown = conform(value, POD)
    assert kept["metadata"]["managedFields"][0]["fieldsV1"] is not None
    assert not unknown


def test_quantities_that_are_exact_are_canonical() -> None:
    shape = StructShape("io.v1.One")
    shape.fields = {"value": SCHEMA.of_definition("io.k8s.apimachinery.pkg.api.resource.Quantity")}
    exact = exact_type(shape)
    for number, suffix in itertools.product(range(1000), ("", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e1")):
        value = {"value": f"{number}{suffix}"}
        try:
            msgspec.convert(value, exact, dec_hook=decode_true)
        except msgspec.ValidationError:
            assert number == 0 or suffix in ("k", "M", "G", "e1")
        else:
            assert shapes.conform(value, shape) == (value, [])


def test_times_that_are_exact_are_valid() -> None:
    shape = StructShape("io.v1.One")
    shape.fields = {"value": SCHEMA.of_definition("io.k8s.apimachinery.pkg.apis.meta.v1.Time")}
    exact = exact_type(shape)
    dates = [
        f"{year}-{month:02}-{day:02}" for year in ("0000", "0001", "2026") for month in range(14) for day in range(33)
    ]
    times = [f"2026-01-01T{hour:02}:{minute:02}:00Z" for hour in range(26) for minute in (0, 59, 60)]
    for text in [*(f"{date}T00:00:00Z" for date in dates), *times, "2026-01-01T00:00:60Z", "2026-01-01T00:00:00Z\n"]:
        value = {"value": text}
        try:
            msgspec.convert(value, exact, dec_hook=decode_true)
        except msgspec.ValidationError:
            continue
        assert shapes.conform(value, shape) == (value, [])


def test_numbers_keep_their_types() -> None:
    shape = StructShape("io.v1.One")
    shape.fields = {"any": Shape("interface {}"), "number": shapes.NumberShape("float64")}
    for value in (1, 1.0, 1.5, 0) * 4:
        kept, _ = conform({"any": value, "number": value}, shape)
        assert type(kept["any"]) is type(value)
        assert type(kept["number"]) is (float if value == 1.5 else int)  # whole floats are stored as Go writes them
    for other in (True, "1"):
        assert type(conform({"any": other}, shape)[0]["any"]) is type(other)

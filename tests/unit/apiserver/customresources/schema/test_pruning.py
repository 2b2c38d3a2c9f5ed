"""Pruning and decoding: unknown fields, nulls, and the metadata of embedded objects."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from bridgehead.apiserver.customresources.schema import Structural, stored
from bridgehead.apiserver.errors import SchemaMismatch
from bridgehead.apiserver.shapes import conform

from .objects import INTEGER, META, PRESERVED, STRING, listing, mapping, struct

EMBEDDED = {"x-kubernetes-embedded-resource": True}
NULLABLE = STRING | {"nullable": True}

# schema of the root's fields, object, object without unknown fields, their paths
PRUNED: dict[str, tuple[dict[str, Any], Any, Any, list[str]]] = {
    "known": ({"a": STRING}, {"a": "x"}, {"a": "x"}, []),
    "unknown": ({"a": STRING}, {"a": "x", "b": 1}, {"a": "x"}, ["b"]),
    "fields of every object": ({}, {"apiVersion": "v1", "kind": "K", "metadata": {"x": 1}}, None, []),
    "such fields further in": ({"a": struct()}, {"a": {"kind": "K"}}, {"a": {}}, ["a.kind"]),
    "below lists and maps": (
        {"a": listing(struct(b=STRING)), "m": mapping(struct(b=STRING))},
        {"a": [{"b": "x"}, {"c": 1}], "m": {"k": {"c": 1, "b": "x"}}},
        {"a": [{"b": "x"}, {}], "m": {"k": {"b": "x"}}},
        ["a[1].c", "m.k.c"],
    ),
    "lists of lists": ({"a": listing(listing(struct()))}, {"a": [[{"x": 1}]]}, {"a": [[{}]]}, ["a[0][0].x"]),
    "objects in a list of strings": ({"a": listing(STRING)}, {"a": [{"x": 1}, "s"]}, {"a": [{}, "s"]}, ["a[0].x"]),
    "an object without a schema": ({"a": {"type": "object"}}, {"a": {"x": 1}}, {"a": {}}, ["a.x"]),
    "a map of anything": (
        {"a": {"type": "object", "additionalProperties": True}},
        {"a": {"x": {"y": 1}, "z": 1}},
        {"a": {"x": {}, "z": 1}},  # as in Kubernetes
        ["a.x.y"],
    ),
    "preserved": ({"a": PRESERVED}, {"a": {"x": {"y": [{"z": 1}]}}}, None, []),
    "known fields in what is preserved": (
        {"a": PRESERVED | {"properties": {"b": struct(c=STRING)}}},
        {"a": {"x": 1, "b": {"c": "x", "d": 1}}},
        {"a": {"x": 1, "b": {"c": "x"}}},
        ["a.b.d"],
    ),
    "preserved items": (
        {"a": {"type": "array", "items": struct(b=STRING), "x-kubernetes-preserve-unknown-fields": True}},
        {"a": [{"x": 1}, [{"y": 1}]]},
        None,
        [],
    ),
    "preserved list without items": ({"a": {"type": "array", **PRESERVED}}, {"a": [{"x": 1}]}, None, []),
    "embedded": (
        {"a": EMBEDDED | struct(spec=struct())},
        {"a": {"kind": "K", "metadata": {"name": "x"}, "spec": {"x": 1}, "status": {}}},
        {"a": {"kind": "K", "metadata": {"name": "x"}, "spec": {}}},
        ["a.spec.x", "a.status"],
    ),
    "null": ({"a": STRING, "b": NULLABLE}, {"a": None, "b": None}, {"b": None}, []),
    "null with a default": ({"a": STRING | {"default": "x"}}, {"a": None}, None, []),
    "null in a map": ({"a": mapping(STRING)}, {"a": {"x": None, "y": "y"}}, {"a": {"y": "y"}}, []),
    "null in a list": ({"a": listing(STRING)}, {"a": [None]}, None, []),
    "unknown null": ({"a": STRING}, {"b": None}, {}, ["b"]),
    "null of an unknown type": ({"a": PRESERVED}, {"a": {"x": None}}, None, []),
    "null below what is preserved": (
        {"a": PRESERVED | {"properties": {"b": STRING}}},
        {"a": {"b": None, "c": None}},
        {"a": {"c": None}},
        [],
    ),
    "a scalar where an object is expected": ({"a": struct(b=STRING)}, {"a": 5}, None, []),
}


@pytest.mark.parametrize("case", PRUNED)
def test_pruned(case: str) -> None:
    fields, obj, kept, paths = PRUNED[case]
    structural = Structural.parse(struct(**fields))
    before = copy.deepcopy(obj)
    result, unknown = structural.pruned(obj)
    assert obj == before
    assert result == (before if kept is None else kept)
    assert unknown == paths
    if kept is None:
        assert result is obj
    assert structural.prune(obj) == paths
    assert obj == result
    assert structural.prune(obj) == []


def test_a_definition_can_preserve_everything() -> None:
    obj = {"x": 1, "spec": {"y": None}}
    structural = Structural.parse(struct(), META, preserve_unknown=True)
    assert structural.prune(obj) == []
    assert conform(obj, structural.shape) == (obj, [])


def decoded(obj: Any, **fields: Any) -> tuple[Any, list[str]]:
    return conform(obj, Structural.parse(struct(**fields), META).shape)


def test_decoding_checks_the_metadata() -> None:
    obj = {"kind": "K", "metadata": {"name": "a", "labels": None, "color": "red"}, "spec": {"x": 1, "y": 2}}
    assert decoded(obj, spec=struct(x=INTEGER)) == (
        {"kind": "K", "metadata": {"name": "a"}, "spec": {"x": 1}},
        ["metadata.color", "spec.y"],
    )
    assert decoded({"metadata": None, "spec": {}}, spec=struct()) == ({"spec": {}}, [])
    with pytest.raises(SchemaMismatch, match=r"cannot unmarshal number into Go struct field ObjectMeta.name of"):
        decoded({"metadata": {"name": 5}})
    with pytest.raises(SchemaMismatch):
        decoded(["x"])


def test_decoding_leaves_wrong_types_to_validation() -> None:
    assert decoded({"spec": {"x": "one"}}, spec=struct(x=INTEGER)) == ({"spec": {"x": "one"}}, [])


def test_decoding_checks_the_metadata_of_embedded_objects() -> None:
    fields = {
        "spec": struct(
            templates=listing(PRESERVED | EMBEDDED), one=PRESERVED | EMBEDDED, m=mapping(PRESERVED | EMBEDDED)
        )
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "creationTimestamp": None, "x": 1},
        "spec": {"y": 1},
    }
    kept = {**pod, "metadata": {"name": "a"}}
    obj = {"spec": {"templates": [pod], "one": {"metadata": None, "z": 1}, "m": {"k": pod}}}
    before = copy.deepcopy(obj)
    assert decoded(obj, **fields) == (
        {"spec": {"templates": [kept], "one": {"metadata": {}, "z": 1}, "m": {"k": kept}}},
        ["spec.m.k.metadata.x", "spec.templates[0].metadata.x"],
    )
    assert obj == before
    with pytest.raises(SchemaMismatch, match=r"^spec.one.kind: Invalid value: 5: must be a string$"):
        decoded({"spec": {"one": {"kind": 5}}}, **fields)
    with pytest.raises(
        SchemaMismatch, match=r'^spec.one.metadata: Invalid value: \{"name":5\}: json: cannot unmarshal'
    ):
        decoded({"spec": {"one": {"metadata": {"name": 5}}}}, **fields)


def test_numbers_are_decoded_and_stored_as_by_kubernetes() -> None:
    obj = {"spec": {"a": 2.0, "b": [1.5, 1e2, {"c": -0.0}], "d": 2**63, "e": 2**63 - 1, "f": 1e300}}
    before = copy.deepcopy(obj)
    kept, _ = decoded(obj, spec=PRESERVED)
    rest = '"d": 9.223372036854776e+18, "e": 9223372036854775807, "f": 1e+300}'
    assert json.dumps(kept["spec"]) == f'{{"a": 2.0, "b": [1.5, 100.0, {{"c": -0.0}}], {rest}'
    assert json.dumps(stored(kept["spec"])) == f'{{"a": 2, "b": [1.5, 100, {{"c": 0}}], {rest}'
    assert obj == before


def test_a_number_beyond_every_float_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match="cannot unmarshal number"):
        decoded({"spec": {"a": 10**400}}, spec=PRESERVED)


def test_the_shape_knows_the_metadata() -> None:
    shape = Structural.parse(struct(), META).shape
    assert shape.child("metadata") is META
    assert shape.child("spec").child("x") is shape.child("spec")

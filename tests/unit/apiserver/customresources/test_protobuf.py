"""Schemas of definitions in protobuf, in which Go clients send them."""

from __future__ import annotations

from bridgehead.apiserver.bodies.definitions import LazyDefinitions
from bridgehead.apiserver.bodies.protobuf.decoding import decode_message_untrusted
from bridgehead.apiserver.bodies.protobuf.encoding import Encoder
from bridgehead.apiserver.bodies.protobuf.fields import plain_scalars
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.shapes import StructShape, conform

from .definitions import SCALE, definition, version

SHAPE = Schema(LazyDefinitions(), plain_scalars).of_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
ITEMS = {"type": "string", "default": "x", "enum": ["x", 5, None, {"a": [1.5]}], "maxLength": 0, "nullable": True}
RULES = [{"rule": "self > 0", "message": "m", "reason": "FieldValueInvalid", "optionalOldSelf": True}]
SCHEMA = {
    "type": "object",
    "properties": {
        "list": {"type": "array", "items": ITEMS, "x-kubernetes-list-type": "set"},
        "map": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1.5}},
        "any": {"type": "object", "additionalProperties": True, "x-kubernetes-preserve-unknown-fields": True},
        "none": {"type": "object", "additionalProperties": False},
        "either": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "rules": {"type": "integer", "x-kubernetes-validations": RULES, "not": {"enum": [7]}},
        "tuple": {"items": [{"type": "string"}, {"type": "integer", "example": {"a": 1}}]},
    },
}


def encoded(crd: object) -> bytes:
    obj, _ = conform(crd, SHAPE)  # type: ignore[arg-type]
    assert isinstance(SHAPE, StructShape)
    return Encoder().message(obj, SHAPE)


def test_a_definition_comes_back_as_it_was():
    selectable = [{"jsonPath": ".spec.a"}]
    crd = definition(version(schema=SCHEMA, subresources={"status": {}, "scale": SCALE}, selectableFields=selectable))
    del crd["kind"], crd["apiVersion"]
    assert decode_message_untrusted(encoded(crd), SHAPE) == crd

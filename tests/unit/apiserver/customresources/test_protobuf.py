"""Definitions in protobuf, in which Go clients send them. Custom resources have no such form."""

from __future__ import annotations

from bridgehead.apiserver.bodies.protobuf.decoding import decode_message_untrusted
from bridgehead.apiserver.bodies.protobuf.encoding import Encoder
from bridgehead.apiserver.bodies.protobuf.fields import plain_scalars
from bridgehead.apiserver.bodies.protobuf.framing import envelope
from bridgehead.apiserver.bodies.schema import LazyDefinitions, Schema, StructShape, conform
from tests.unit.apiserver.world import open_world

from .definitions import DEFINITIONS, NAME, SCALE, conditions, crontab, definition, until, url, version

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


async def test_a_definition_is_created_and_read_in_protobuf():
    protobuf = "application/vnd.kubernetes.protobuf"
    async with open_world() as world:
        crd = definition(version(subresources={"status": {}}))
        body = envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", encoded(crd))
        headers = {"content-type": protobuf, "accept": f"{protobuf},application/json"}
        created = await world.call("POST", DEFINITIONS, body, headers=headers)
        assert (created.status, created.header("content-type")) == (201, [protobuf])
        assert (await world.get(f"{DEFINITIONS}/{NAME}"))["spec"]["versions"] == crd["spec"]["versions"]

        async def is_established() -> bool:
            return (await conditions(world)).get("Established", ("",))[0] == "True"

        await until(is_established)
        await world.create(url(), crontab())
        listed = await world.call("GET", url(), headers=headers)
        assert listed.header("content-type") == ["application/json"]

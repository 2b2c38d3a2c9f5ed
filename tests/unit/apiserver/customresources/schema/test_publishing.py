"""OpenAPI definitions of custom resources."""

from __future__ import annotations

from bridgehead.apiserver.customresources.schema.publishing import (
    definition_2,
    definition_3,
    definition_name,
    list_definition,
)
from bridgehead.apiserver.resource import JsonObject

from .objects import INTEGER, PRESERVED, STRING, listing, mapping, struct

GVK = ("stable.example.com", "v1", "CronTab")
META = {"$ref": "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
EITHER = [{"type": "integer"}, {"type": "string"}]
INT_OR_STRING = {"x-kubernetes-int-or-string": True}


def spec_3(spec: JsonObject) -> JsonObject:
    found: JsonObject = definition_3(struct(spec=spec), *GVK)["properties"]["spec"]
    return found


def spec_2(spec: JsonObject) -> JsonObject:
    found: JsonObject = definition_2(struct(spec=spec), *GVK)["properties"]["spec"]
    return found


def test_names_are_those_of_clients() -> None:
    assert definition_name(*GVK) == "com.example.stable.v1.CronTab"
    assert definition_name("core.api.k8s.io", "v1", "Pod") == "io.k8s.api.core.v1.Pod_v2"  # not the Pod of Kubernetes


def test_fields_of_every_object() -> None:
    schema = struct(("spec",), spec=STRING, metadata={"type": "object", "properties": {"name": STRING}})
    definition = definition_3(schema, *GVK)
    assert definition["required"] == ["spec"]
    assert set(definition["properties"]) == {"apiVersion", "kind", "metadata", "spec"}
    assert definition["properties"]["metadata"].items() >= META.items()
    assert definition["properties"]["kind"]["description"].startswith("Kind is a string value")
    assert definition["x-kubernetes-group-version-kind"] == [
        {"group": "stable.example.com", "version": "v1", "kind": "CronTab"}
    ]
    assert "metadata" in schema["properties"]
    assert schema["properties"]["metadata"]["type"] == "object"


def test_a_version_without_a_schema_allows_everything() -> None:
    untyped = definition_3(None, *GVK)
    assert untyped == definition_2(None, *GVK) == definition_2(PRESERVED, *GVK)
    assert untyped["type"] == "object"
    assert "properties" not in untyped
    assert definition_2(struct(spec=STRING), *GVK, preserve_unknown=True) == untyped
    assert "properties" in definition_3(PRESERVED, *GVK)


def test_version_3_publishes_the_schema_as_it_is() -> None:
    spec = struct(a=STRING | {"nullable": True, "pattern": "x"}, b=PRESERVED) | {"oneOf": [{"required": ["a"]}]}
    assert spec_3(spec) == spec
    rules = struct(a=INTEGER) | {"x-kubernetes-validations": [{"rule": "self.a > 1"}]}
    assert spec_3(rules) == rules


def test_an_integer_or_string_is_written_as_alternatives() -> None:
    assert spec_3(INT_OR_STRING) == INT_OR_STRING | {"anyOf": EITHER}
    assert spec_3(INT_OR_STRING | {"anyOf": EITHER}) == INT_OR_STRING | {"anyOf": EITHER}
    all_of = INT_OR_STRING | {"allOf": [{"anyOf": EITHER}]}
    assert spec_3(all_of) == all_of
    other = INT_OR_STRING | {"anyOf": [{"pattern": "x"}]}
    assert spec_3(other) == other | {"allOf": [{"anyOf": EITHER}]}
    assert spec_2(INT_OR_STRING) == INT_OR_STRING


def test_embedded_objects_get_their_fields() -> None:
    embedded = struct(("kind",), spec=struct()) | {"x-kubernetes-embedded-resource": True}
    for spec in (spec_3(listing(embedded))["items"], spec_2(listing(embedded))["items"]):
        assert set(spec["properties"]) == {"apiVersion", "kind", "metadata", "spec"}
        assert spec["required"] == ["kind", "apiVersion"]
        assert spec["properties"]["metadata"].items() >= META.items()
    preserved = PRESERVED | {"x-kubernetes-embedded-resource": True}
    assert "properties" in spec_3(preserved)
    assert "properties" not in spec_2(preserved)


def test_version_2_has_no_alternatives_and_no_nulls() -> None:
    spec = struct(("a", "b"), a=STRING | {"nullable": True}, b=struct(c=INTEGER) | {"not": {"required": ["c"]}})
    assert spec_2(spec | {"anyOf": [{}], "allOf": [{}], "oneOf": [{}]}) == struct(("b",), a={}, b=struct(c=INTEGER))
    assert spec_2(struct(("a",), a=STRING | {"nullable": True})) == struct(a={})
    assert spec_2(struct(a=STRING) | {"nullable": True}) == {}
    assert spec_2(listing(STRING) | {"nullable": True}) == {}
    assert spec_2(mapping(STRING | {"nullable": True}) | {"required": ["x"]}) == mapping({})
    assert spec_2(mapping(STRING)) == mapping(STRING)


def test_version_2_leaves_open_what_is_preserved() -> None:
    open_object = {"x-kubernetes-preserve-unknown-fields": True}
    assert spec_2(PRESERVED | {"properties": {"a": STRING}}) == open_object
    assert spec_2(listing(STRING) | open_object) == open_object


def test_lists() -> None:
    definition = list_definition(*GVK, "CronTabList", "crontabs")
    assert definition["description"] == "CronTabList is a list of CronTab"
    assert definition["properties"]["items"]["items"] == {"$ref": "#/$defs/com.example.stable.v1.CronTab"}
    assert definition["required"] == ["items"]
    assert definition["x-kubernetes-group-version-kind"][0]["kind"] == "CronTabList"

"""Custom resources as field management sees them."""

from __future__ import annotations

from bridgehead.apiserver.bodies.definitions import OBJECT_META, LazyDefinitions
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.customresources.schema import Structural
from bridgehead.apiserver.fieldmanagement.comparing import compare
from bridgehead.apiserver.fieldmanagement.roots import as_root
from bridgehead.apiserver.resource import JsonObject

from .objects import INTEGER, PRESERVED, STRING, keyed, listing, struct

META = Schema(LazyDefinitions()).of_definition(OBJECT_META)
INT_OR_STRING = {"x-kubernetes-int-or-string": True}


def owned(schema: JsonObject, obj: JsonObject) -> JsonObject:
    fields: JsonObject = compare({}, obj, as_root(Structural.parse(schema, META).shape)).changed
    return fields


def test_managers_own_fields_by_the_schema() -> None:
    schema = struct(
        spec=struct(
            ports=keyed(struct(name=STRING, port=INTEGER), "name"),
            tags=listing(STRING, **{"x-kubernetes-list-type": "set"}),
            args=listing(STRING),
            whole=struct(a=STRING) | {"x-kubernetes-map-type": "atomic"},
            open=PRESERVED,
            size=INT_OR_STRING,
        )
    )
    obj = {
        "apiVersion": "stable.example.com/v1",
        "kind": "CronTab",
        "metadata": {"name": "a", "finalizers": ["x/y"], "labels": {"l": "v"}},
        "spec": {
            "ports": [{"name": "web", "port": 80}],
            "tags": ["t"],
            "args": ["a", "b"],
            "whole": {"a": "b"},
            "open": {"x": {"y": [1]}},
            "size": "5%",
        },
    }
    assert owned(schema, obj) == {
        "f:metadata": {"f:finalizers": {".": {}, 'v:"x/y"': {}}, "f:labels": {".": {}, "f:l": {}}},
        "f:spec": {
            ".": {},
            "f:ports": {".": {}, 'k:{"name":"web"}': {".": {}, "f:name": {}, "f:port": {}}},
            "f:tags": {".": {}, 'v:"t"': {}},
            "f:args": {},
            "f:whole": {},
            "f:open": {".": {}, "f:x": {".": {}, "f:y": {}}},
            "f:size": {},
        },
    }


def test_keys_of_items_have_defaults() -> None:
    port = struct(port=INTEGER, protocol=STRING | {"default": "TCP"})
    obj = {"spec": {"ports": [{"port": 80}]}}
    fields = owned(struct(spec=struct(ports=keyed(port, "port", "protocol"))), obj)
    assert list(fields["f:spec"]["f:ports"]) == [".", 'k:{"port":80,"protocol":"TCP"}']


def test_embedded_objects_are_owned_by_their_fields() -> None:
    schema = struct(spec=struct(template=PRESERVED | {"x-kubernetes-embedded-resource": True}))
    fields = owned(schema, {"spec": {"template": {"kind": "Pod", "metadata": {"finalizers": ["a/b"]}, "x": {"y": 1}}}})
    assert fields["f:spec"]["f:template"]["f:metadata"] == {".": {}, "f:finalizers": {".": {}, 'v:"a/b"': {}}}
    assert fields["f:spec"]["f:template"]["f:x"] == {".": {}, "f:y": {}}


def test_fields_beside_the_declared_ones_have_owners_where_any_are_allowed() -> None:
    spec = struct(a=STRING) | {"additionalProperties": True}
    fields = owned(struct(spec=spec), {"spec": {"a": "x", "b": {"c": "y"}}})
    assert fields == {"f:spec": {".": {}, "f:a": {}, "f:b": {".": {}, "f:c": {}}}}

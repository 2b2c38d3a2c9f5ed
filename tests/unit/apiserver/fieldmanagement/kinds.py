"""Types for tests: those of Kubernetes' own kinds, and a small one for properties."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from bridgehead.apiserver.bodies.definitions import load_definitions
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.customresources.schema.node import Node
from bridgehead.apiserver.fieldmanagement.managers import Kind
from bridgehead.apiserver.fieldmanagement.roots import as_root


@lru_cache(maxsize=1)
def _schema() -> Schema:
    return Schema(load_definitions())


@lru_cache(maxsize=16)
def kind_of(kind: str, group: str = "", version: str = "v1") -> Kind:
    root = as_root(_schema().of_kind(group, version, kind))
    return Kind(root, f"{group}/{version}" if group else version, kind)


_STRING: dict[str, Any] = {"type": "string"}
# Every relationship: scalars, a map, a keyed list, a set, atomic values, and a struct in an element.
_SMALL = {
    "type": "object",
    "properties": {
        "metadata": {"type": "object", "properties": {"name": _STRING}},
        "a": _STRING,
        "b": {"type": "integer"},
        "labels": {"type": "object", "additionalProperties": _STRING},
        "items": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "properties": {
                    "name": _STRING,
                    "x": _STRING,
                    "inner": {"type": "object", "properties": {"y": _STRING, "z": _STRING}},
                },
            },
        },
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": _STRING},
        "whole": {"type": "array", "items": _STRING},
        "fixed": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": _STRING},
        "nested": {
            "type": "object",
            "properties": {"p": _STRING, "q": {"type": "object", "additionalProperties": _STRING}},
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


@lru_cache(maxsize=1)
def small() -> Kind:
    return Kind(as_root(Node(_SMALL)), "v1", "Small")

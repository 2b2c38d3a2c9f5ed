"""Nulls of stored objects: fields that Go writes also when they have no value.

The hooks of resources work on objects without nulls; the stored bytes, which clients get, have them. Nulls are
therefore written last and dropped first. `nulls.txt` has the fields; `scripts/extract-go-fields` writes it from Go's
types. Custom resources have none: they are stored as they were sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bridgehead.apiserver.resource import JsonObject, Resource, copied

from .definitions import LazyDefinitions, definitions_by_kind


class Nulls(NamedTuple):
    """Fields of a type that have nulls: its `own`, and those in the structs of others: a struct, or a list or map of
    them.

    `inner` has the names of these, whether they are maps, and where the structs have nulls.
    """

    own: tuple[str, ...]
    inner: tuple[tuple[str, bool, Nulls], ...]


_NONE = Nulls((), ())
_API = "io.k8s.api."  # left out in the table


def nulls_of(resource: Resource) -> Nulls:
    """Return where the objects of a resource have nulls."""
    if resource.definition is not None:
        return _NONE
    return nulls_of_kind(resource.group, resource.version, resource.kind)


def decode_stored(resource: Resource, value: bytes) -> JsonObject:
    """Decode an object in the form in which a resource stores it, without nulls."""
    obj: JsonObject = msgspec.json.decode(value)
    drop_nulls(obj, nulls_of(resource.stored))
    return obj


def null_fields(definition: str) -> frozenset[str]:
    """Return the fields of a definition that are null when they have no value."""
    return frozenset(_of_definition(definition).own)


def with_nulls(obj: JsonObject, definition: str) -> JsonObject:
    """Return an object of a definition as clients see it: a copy with nulls, or itself if it can have none."""
    nulls = _of_definition(definition)
    if nulls == _NONE:
        return obj
    shown: JsonObject = copied(obj)
    write_nulls(shown, nulls)
    return shown


def write_nulls(value: JsonObject, nulls: Nulls) -> None:
    """Write the nulls of an object in place. An empty list is no value, as in protobuf."""
    for name in nulls.own:
        if value.get(name) in (None, []):
            value[name] = None
    for name, is_map, inner in nulls.inner:
        found = value.get(name)
        if found is not None:
            for one in _structs(found, is_map=is_map):
                write_nulls(one, inner)


def drop_nulls(value: JsonObject, nulls: Nulls) -> None:
    """Drop from a stored object, in place, what `write_nulls` wrote."""
    for name in nulls.own:
        if name in value and value[name] is None:
            del value[name]
    for name, is_map, inner in nulls.inner:
        found = value.get(name)
        if found is not None:
            for one in _structs(found, is_map=is_map):
                drop_nulls(one, inner)


def _structs(value: Any, *, is_map: bool) -> Iterable[JsonObject]:
    return value.values() if is_map else value if type(value) is list else (value,)


@cache
def nulls_of_kind(group: str, version: str, kind: str) -> Nulls:
    """Return where the objects of one of Kubernetes' own kinds have nulls."""
    name = definitions_by_kind(LazyDefinitions()).get((group, version, kind), "")
    return _of_definition(name)


@cache
def _of_definition(name: str) -> Nulls:
    own, inner = [], []
    for word in _lines().get(name.removeprefix(_API), "").split():
        field, _, type_ = word.partition(">")
        if type_:
            inner.append((field.rstrip("*"), field.endswith("*"), _of_definition(type_)))
        else:
            own.append(field)
    return Nulls(tuple(own), tuple(inner))


@cache
def _lines() -> dict[str, str]:
    text = Path(__file__).with_name("nulls.txt").read_text(encoding="utf-8")
    return dict(line.partition(" ")[::2] for line in text.splitlines())

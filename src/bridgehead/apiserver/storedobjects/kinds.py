"""The stored form of the objects of one built-in kind: JSON or protobuf, in the versions in which etcd may have them.

Pure: no I/O, no clock, no randomness.
Source: apiserver/pkg/storage/etcd3/store.go, apimachinery/pkg/runtime/serializer/versioning.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import Any

import msgspec

from bridgehead.apiserver.bodies.conforming import conform
from bridgehead.apiserver.bodies.nulls import drop_nulls, nulls_of, write_nulls
from bridgehead.apiserver.bodies.protobuf import MAGIC, BadPacket, decode_envelope_untrusted, decode_message_untrusted
from bridgehead.apiserver.bodies.protobuf.framing import envelope
from bridgehead.apiserver.bodies.protobuf.objects import ProtobufObjects
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.errors import ApiStatus, SchemaMismatch
from bridgehead.apiserver.registry.facts import facts_of
from bridgehead.apiserver.resource import JsonObject, Resource, copied
from bridgehead.apiserver.shapes import StructShape
from bridgehead.media_types import PROTOBUF
from bridgehead.storage import Facts
from bridgehead.storage.etcd import Undecodable

from .older_versions import OLDER_VERSIONS, OlderVersion
from .values import decode_json, differ_by_zeros, named, without_version

# Kinds that Kubernetes never stores in protobuf.
_ALWAYS_JSON = frozenset({"customresourcedefinitions.apiextensions.k8s.io", "apiservices.apiregistration.k8s.io"})

_encode = msgspec.json.Encoder().encode


class StoredKind:
    """The stored form of a resource's objects. `api_version` is that in which they are written."""

    def __init__(
        self, resource: Resource, schema: Schema, encoder: ProtobufObjects, media_type: str, api_version: str
    ) -> None:
        self._resource = resource
        self._schema = schema
        self._encoder = encoder
        self._is_protobuf = media_type == PROTOBUF and resource.id not in _ALWAYS_JSON
        self._api_version = api_version
        self._nulls = nulls_of(resource)
        self._older = {one.api_version: one for one in OLDER_VERSIONS.get(resource.id, ())}
        self._older_shapes: dict[str, StructShape] = {}
        if api_version != resource.api_version and api_version not in self._older:
            raise ValueError(f"{resource.id} can't be stored as {api_version}")

    @cached_property
    def _shape(self) -> StructShape:
        return self._struct(self._resource.api_version)

    def encode(self, obj: JsonObject) -> bytes:
        obj = without_version(obj)
        if self._api_version != self._resource.api_version:
            obj = copied(obj)
            drop_nulls(obj, self._nulls)
            obj = self._older[self._api_version].downgrade(obj)
        if self._is_protobuf:
            message = self._encoder.message(obj, self._shape_of(self._api_version))
            return envelope(self._api_version, self._resource.kind, message)
        return _encode(self._typed(obj, self._api_version))

    def decode(self, stored: bytes) -> tuple[JsonObject, Facts]:
        """Return an object as it is served, and its facts. Raises `Undecodable`."""
        is_json = not stored.startswith(MAGIC)
        value = decode_json(stored) if is_json else self._from_protobuf(stored)
        older = self._version_of(value)
        is_plain = older is None and b"null" not in stored
        bare = value if is_plain else copied(value)
        try:
            obj = self._upgraded(bare, older) if older is not None else self._conforming(bare)
            named(obj, namespaced=self._resource.namespaced)
            self._resource.strategy.default(obj)
            self._resource.strategy.default_on_read(obj)
            facts = facts_of(self._resource, obj)
        except RecursionError as error:
            raise Undecodable(f"{self._resource.kind}: nested too deeply") from error
        except SchemaMismatch as mismatch:
            raise Undecodable(f"{self._resource.kind}: {mismatch}") from mismatch
        except ApiStatus as refused:
            raise Undecodable(f"{self._resource.kind}: {refused}") from refused
        write_nulls(obj, self._nulls)
        # JSON that this server stored comes back as it was: with its fields in their order, and with its zero values.
        if obj == value or (is_json and older is None and differ_by_zeros(obj, value)):
            return value, facts
        return self._typed(obj, self._resource.api_version), facts

    def _conforming(self, value: JsonObject) -> JsonObject:
        with suppress(AttributeError, TypeError):  # at a value of a wrong type, which the check below names
            drop_nulls(value, self._nulls)
        return conform(value, self._shape)[0]

    def _upgraded(self, value: JsonObject, older: OlderVersion) -> JsonObject:
        obj, _ = conform(value, self._shape_of(older.api_version))
        upgraded = {**older.upgrade(obj), "apiVersion": self._resource.api_version}
        return conform(upgraded, self._shape)[0]

    def _from_protobuf(self, stored: bytes) -> JsonObject:
        try:
            api_version, kind, message = decode_envelope_untrusted(stored)
            typed = {"kind": kind, "apiVersion": api_version}
            older = self._version_of(typed)
            shape = self._shape if older is None else self._shape_of(older.api_version)
            return typed | decode_message_untrusted(message, shape)
        except BadPacket as error:
            raise Undecodable(f"not a protobuf message of {self._resource.kind}: {error}") from error

    def _version_of(self, value: JsonObject) -> OlderVersion | None:
        """Return the older version of a value; None for the present one. Raises `Undecodable`."""
        kind, api_version = value.get("kind"), value.get("apiVersion")
        if kind == self._resource.kind:
            if api_version == self._resource.api_version:
                return None
            if isinstance(api_version, str) and (older := self._older.get(api_version)) is not None:
                return older
        raise Undecodable(_unknown(kind, api_version))

    def _shape_of(self, api_version: str) -> StructShape:
        if api_version == self._resource.api_version:
            return self._shape
        shape = self._older_shapes.get(api_version)
        if shape is None:
            make = self._older[api_version].shape
            shape = self._struct(api_version) if make is None else make(self._shape)
            self._older_shapes[api_version] = shape
        return shape

    def _struct(self, api_version: str) -> StructShape:
        shape = self._schema.of_kind(self._resource.group, api_version.rpartition("/")[2], self._resource.kind)
        if not isinstance(shape, StructShape):
            raise TypeError(f"{self._resource.kind} has no fields")
        return shape

    def _typed(self, obj: JsonObject, api_version: str) -> JsonObject:
        """Return an object with its kind and version, as those that Kubernetes stores."""
        if obj.get("kind") == self._resource.kind and obj.get("apiVersion") == api_version:
            return obj
        return {"kind": self._resource.kind, "apiVersion": api_version} | {
            name: value for name, value in obj.items() if name not in ("kind", "apiVersion")
        }


def _unknown(kind: Any, api_version: Any) -> str:
    if not kind or not isinstance(kind, str):
        return "Object 'Kind' is missing"
    if not api_version or not isinstance(api_version, str):
        return "Object 'apiVersion' is missing"
    return f"kind {kind[:253]} in version {api_version[:253]} is not known"

"""The stored form of custom resources: JSON, in the versions of their definitions.

The definitions are those that the codec has converted itself. Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver/pkg/apiserver/customresource_handler.go (crdConversionRESTOptionsGetter).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from bridgehead.apiserver.bodies.conforming import conform
from bridgehead.apiserver.bodies.definitions import OBJECT_META
from bridgehead.apiserver.bodies.protobuf import MAGIC
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.customresources.definitions import storage_version, versions_of
from bridgehead.apiserver.customresources.selectable_fields import selectable_fields
from bridgehead.apiserver.errors import SchemaMismatch
from bridgehead.apiserver.resource import JsonObject
from bridgehead.storage import Facts, Key
from bridgehead.storage.etcd import Undecodable

from .values import decode_json, named, without_version

_encode = msgspec.json.Encoder().encode

_Fields = Mapping[str, Callable[[JsonObject], str]]
_NO_FIELDS: _Fields = {}


@dataclass(frozen=True, slots=True)
class _Definition:
    """The part of a definition that is needed here. `fields` are the selectable fields by version."""

    kind: str
    stored: str
    fields: Mapping[str, _Fields]


class CustomResources:
    """The stored form of all custom resources."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._definitions: dict[str, _Definition] = {}

    def learn(self, crd: JsonObject) -> None:
        """Remember a definition, in v1. Does nothing for an invalid one."""
        try:
            spec = crd["spec"]
            fields = {version["name"]: selectable_fields(version) for version in versions_of(crd)}
            found = _Definition(spec["names"]["kind"], storage_version(crd), fields)
            self._definitions[f"{spec['names']['plural']}.{spec['group']}"] = found
        except (KeyError, ValueError, AttributeError, TypeError):
            return

    def encode(self, obj: JsonObject) -> bytes:
        return _encode(without_version(obj))

    def decode(self, key: Key, stored: bytes) -> tuple[JsonObject, Facts]:
        """Return an object as it is stored, and its facts. Raises `Undecodable`."""
        if stored.startswith(MAGIC):
            raise Undecodable("a custom resource in protobuf")
        obj = decode_json(stored)
        version = self._check_type(key, obj)
        try:
            metadata, _ = conform(obj.get("metadata"), self._schema.of_definition(OBJECT_META))  # type: ignore[arg-type]
        except SchemaMismatch as mismatch:
            raise Undecodable(f"metadata: {mismatch}") from mismatch
        if metadata != obj["metadata"]:
            obj["metadata"] = metadata
        named(obj, namespaced=bool(key.namespace))
        metadata = obj["metadata"]
        fields = {"metadata.name": metadata["name"]}
        if key.namespace:
            fields["metadata.namespace"] = metadata["namespace"]
        for field, read in self._fields(key.resource, version).items():
            fields[field] = read(obj)
        return obj, Facts(metadata.get("labels") or {}, fields)

    def _check_type(self, key: Key, obj: JsonObject) -> str:
        """Return the version of an object. Raises `Undecodable` for one of another group or kind."""
        kind, api_version = obj.get("kind"), obj.get("apiVersion")
        if not kind or not isinstance(kind, str):
            raise Undecodable("Object 'Kind' is missing")
        if not api_version or not isinstance(api_version, str):
            raise Undecodable("Object 'apiVersion' is missing")
        group, _, version = api_version.rpartition("/")
        definition = self._definitions.get(key.resource)
        is_known = group == key.resource.partition(".")[2] and (definition is None or definition.kind == kind)
        if not is_known:
            raise Undecodable(f"kind {kind[:253]} in version {api_version[:253]} is not known")
        return version

    def _fields(self, resource: str, version: str) -> _Fields:
        definition = self._definitions.get(resource)
        if definition is None:
            return _NO_FIELDS
        found = definition.fields.get(version)
        return definition.fields.get(definition.stored, _NO_FIELDS) if found is None else found

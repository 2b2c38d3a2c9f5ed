"""The conversion of the objects of all resources to the bytes that etcd has, and back.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bridgehead.apiserver.bodies.definitions import OBJECT_META
from bridgehead.apiserver.bodies.protobuf.objects import ProtobufObjects
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.customresources.customresourcedefinitions import definition_resource
from bridgehead.apiserver.customresources.definitions import ID as DEFINITIONS
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.media_types import JSON
from bridgehead.storage import Facts, Key
from bridgehead.storage.etcd import Layout, Undecodable
from bridgehead.storage.etcd.layout import DEFAULT_PREFIX

from .custom_resources import CustomResources
from .kinds import StoredKind
from .older_versions import STORAGE_VERSIONS
from .values import MAX_BYTES


def layout_of(table: Iterable[Resource], prefix: str = DEFAULT_PREFIX) -> Layout:
    """Return the layout of etcd's keys for the resources of `resources.build_table`, and for definitions."""
    return Layout({one.id: one.namespaced for one in _stored(table)} | {DEFINITIONS: False}, prefix)


class StoredObjects:
    """A `storage.etcd.ObjectCodec` for the resources of `resources.build_table`, definitions and custom resources.

    `media_type`: the encoding of new values of built-in kinds, JSON or PROTOBUF. CustomResourceDefinitions, APIServices
    and custom resources are always JSON. `versions`: the API versions that are written where these are not those of the
    table, by resource.
    """

    def __init__(
        self,
        table: Iterable[Resource],
        schema: Schema,
        media_type: str = JSON,
        versions: Mapping[str, str] = STORAGE_VERSIONS,
    ) -> None:
        encoder, definitions = ProtobufObjects(schema), definition_resource(lambda: schema.of_definition(OBJECT_META))
        self._kinds = {
            one.id: StoredKind(one, schema, encoder, media_type, versions.get(one.id, one.api_version))
            for one in (*_stored(table), definitions)
        }
        self._custom = CustomResources(schema)

    def encode(self, key: Key, obj: JsonObject) -> bytes:
        kind = self._kinds.get(key.resource)
        if kind is None:
            return self._custom.encode(obj)
        if key.resource == DEFINITIONS:
            self._custom.learn(obj)
        return kind.encode(obj)

    def decode(self, key: Key, stored: bytes) -> tuple[JsonObject, Facts]:
        if len(stored) > MAX_BYTES:
            raise Undecodable(f"{len(stored)} bytes, which are more than {MAX_BYTES}")
        kind = self._kinds.get(key.resource)
        if kind is None:
            return self._custom.decode(key, stored)
        obj, facts = kind.decode(stored)
        if key.resource == DEFINITIONS:
            self._custom.learn(obj)
        return obj, facts


def _stored(table: Iterable[Resource]) -> list[Resource]:
    """Return the resources whose objects are stored, each once."""
    return list({one.stored.id: one.stored for one in table}.values())

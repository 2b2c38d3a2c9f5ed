"""The conversion of objects to the bytes that etcd has, and back.

Pure: no I/O, no clock, no randomness.
Source: apiserver/pkg/storage/etcd3/store.go, pkg/server/storage/storage_codec.go.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.customresources.definitions import ID as DEFINITIONS
from bridgehead.apiserver.registry.facts import facts_of
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.media_types import JSON
from bridgehead.storage import Facts, Key
from bridgehead.storage.etcd import Layout, Undecodable
from bridgehead.storage.etcd.layout import DEFAULT_PREFIX

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict).decode


def layout_of(table: Iterable[Resource], prefix: str = DEFAULT_PREFIX) -> Layout:
    """Return the layout of etcd's keys for the resources of `resources.build_table`."""
    stored = {one.stored.id: one.namespaced for one in table}
    return Layout({**stored, DEFINITIONS: False}, prefix)


class StoredObjects:
    """A `storage.etcd.ObjectCodec` for the built-in resources of a table and for all custom resources.

    `media_type`: the encoding of new values of built-in kinds, JSON or PROTOBUF. CustomResourceDefinitions, APIServices
    and custom resources are always JSON.
    """

    def __init__(self, table: Iterable[Resource], schema: Schema, media_type: str = JSON) -> None:
        self._resources = {one.stored.id: one.stored for one in table}
        self._schema = schema
        self._media_type = media_type

    def encode(self, key: Key, obj: JsonObject) -> bytes:
        return _encode(_without_version(obj))

    def decode(self, key: Key, stored: bytes) -> tuple[JsonObject, Facts]:
        try:
            obj: JsonObject = _decode(stored)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise Undecodable(str(error)) from error
        return obj, facts_of(self._resources[key.resource], obj)


def _without_version(obj: JsonObject) -> JsonObject:
    """Return an object without what is never stored: resourceVersion and selfLink."""
    metadata = {name: value for name, value in obj["metadata"].items() if name not in ("resourceVersion", "selfLink")}
    return {**obj, "metadata": metadata}

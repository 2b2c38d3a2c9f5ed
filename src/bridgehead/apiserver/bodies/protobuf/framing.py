"""Answers in protobuf: objects, lists, and the events of a watch.

An object is a `runtime.Unknown` after four magic bytes. An event is a `WatchEvent` with such an object; its length
comes first, in four bytes. Pure: no I/O, no clock, no randomness.
Source: apimachinery/pkg/runtime/serializer/protobuf, apimachinery/pkg/util/framer.
"""

from __future__ import annotations

from bridgehead.protobuf_wire import BYTES, field, tag, varint

from . import fields

_RAW = tag(fields.UNKNOWN_RAW, BYTES)
_ITEM = tag(fields.ITEMS, BYTES)
_EVENT_OBJECT, _OBJECT_RAW = tag(fields.EVENT_OBJECT, BYTES), tag(fields.RAW, BYTES)


def type_head(api_version: str, kind: str) -> bytes:
    """Return the beginning of a body: the magic bytes and the type of its object."""
    type_meta = field(fields.TYPE_META_API_VERSION, api_version.encode()) + field(fields.TYPE_META_KIND, kind.encode())
    return fields.MAGIC + field(fields.UNKNOWN_TYPE_META, type_meta)


def envelope_start(api_version: str, kind: str, size: int) -> bytes:
    """Return what comes before a message of `size` bytes."""
    return type_head(api_version, kind) + _RAW + varint(size)


def envelope(api_version: str, kind: str, message: bytes) -> bytes:
    return envelope_start(api_version, kind, len(message)) + message


def metadata_only(metadata: bytes) -> bytes:
    """Return the message of an object that has only metadata, such as a PartialObjectMetadata."""
    return field(fields.METADATA, metadata)


def list_start(metadata: bytes) -> bytes:
    """Return the beginning of a list's message, which its items follow."""
    return field(fields.METADATA, metadata)


def item_start(size: int) -> bytes:
    """Return what comes before an item of a list, which is a message of `size` bytes."""
    return _ITEM + varint(size)


def event_start(type: str, head: bytes, size: int) -> bytes:
    """Return what comes before the object of an event: a message of `size` bytes, whose type is `head`."""
    body = head + _RAW + varint(size)
    raw = _OBJECT_RAW + varint(len(body) + size)
    start = field(fields.EVENT_TYPE, type.encode()) + _EVENT_OBJECT + varint(len(raw) + len(body) + size) + raw + body
    return (len(start) + size).to_bytes(4, "big") + start

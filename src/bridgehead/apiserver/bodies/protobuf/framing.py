"""Answers in protobuf: objects, lists, and the events of a watch.

An object is a `runtime.Unknown` after four magic bytes. An event is a `WatchEvent` with such an object; its length
comes first, in four bytes. Pure: no I/O, no clock, no randomness.
Source: apimachinery/pkg/runtime/serializer/protobuf, apimachinery/pkg/util/framer.
"""

from __future__ import annotations

from . import fields
from .encoding import field, tag, varint

_RAW = tag(fields.UNKNOWN_RAW, fields.BYTES)
_ITEM = tag(fields.ITEMS, fields.BYTES)
_EVENT_OBJECT, _OBJECT_RAW = tag(fields.EVENT_OBJECT, fields.BYTES), tag(fields.RAW, fields.BYTES)


def envelope_start(api_version: str, kind: str, size: int) -> bytes:
    """Return what comes before a message of `size` bytes."""
    type_meta = field(fields.TYPE_META_API_VERSION, api_version.encode()) + field(fields.TYPE_META_KIND, kind.encode())
    return fields.MAGIC + field(fields.UNKNOWN_TYPE_META, type_meta) + _RAW + varint(size)


def envelope(api_version: str, kind: str, message: bytes) -> bytes:
    return envelope_start(api_version, kind, len(message)) + message


def metadata_only(metadata: bytes) -> bytes:
    """Return the message of an object that has only metadata, such as a PartialObjectMetadata."""
    return field(fields.METADATA, metadata)


def list_start(metadata: bytes) -> bytes:
    """Return the beginning of a list's message, which its items follow."""
    return field(fields.METADATA, metadata)


def list_item(message: bytes) -> bytes:
    """Return an item of a list, as part of the list's message."""
    return _ITEM + varint(len(message)) + message


def event_start(type: str, size: int) -> bytes:
    """Return what comes before the object of an event, whose envelope has `size` bytes."""
    kind = field(fields.EVENT_TYPE, type.encode())
    raw = _OBJECT_RAW + varint(size)
    start = kind + _EVENT_OBJECT + varint(len(raw) + size) + raw
    return (len(start) + size).to_bytes(4, "big") + start

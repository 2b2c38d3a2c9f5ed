"""Encoding of objects in protobuf.

A message is compiled from its shape once: a function for each field that appends the field to a buffer. Fields come in
the order of the object's keys, which decoders accept; the entries of maps are sorted, as in Kubernetes. Objects are
those of the store, whose types agree with the schema. Unlike Go, zeros that the object does not have are left out, as
decoders set them anyway. Pure: no I/O, no clock, no randomness.
Source: protobuf encoding, the generated.pb.go files of k8s.io/api, meta/v1 time_proto.go and micro_time_proto.go.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from bridgehead.apiserver.go_values import JSON_ESCAPES
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.shapes import (
    BoolShape,
    BytesShape,
    IntOrStringShape,
    IntShape,
    JsonShape,
    ListShape,
    MapShape,
    NumberShape,
    QuantityShape,
    Shape,
    StringShape,
    StructShape,
    SubschemaShape,
    TimeShape,
)
from bridgehead.protobuf_wire import BYTES, FIXED64, VARINT, field, tag, varint

from . import fields

# Appends a field with this value to a buffer.
Write = Callable[[bytearray, Any], None]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Message:
    """A compiled message: what writes each of its fields, and the messages that are embedded in it."""

    __slots__ = ("embedded", "writers")

    def __init__(self) -> None:
        self.writers: dict[str, Write] = {}
        self.embedded: list[tuple[bytes, _Message]] = []

    def write(self, into: bytearray, obj: JsonObject) -> None:
        writers = self.writers
        for name, value in obj.items():
            write = writers.get(name)
            if write is not None and value is not None:
                write(into, value)
        for start, message in self.embedded:
            inner = bytearray()
            message.write(inner, obj)
            if inner:
                _append(into, start, inner)


def _append(into: bytearray, start: bytes, content: bytes | bytearray) -> None:
    """Append a field whose tag is `start`."""
    into += start
    into += varint(len(content))
    into += content


class Encoder:
    """Encodes objects by their shapes. Messages are compiled when the first object is encoded."""

    def __init__(self) -> None:
        self._messages: dict[tuple[Shape, str], _Message] = {}

    def message(self, obj: JsonObject, shape: StructShape) -> bytes:
        """Return an object of this shape as a message, without its kind and apiVersion."""
        into = bytearray()
        self._compiled(shape, shape.definition).write(into, obj)
        return bytes(into)

    def _compiled(self, shape: StructShape, message: str) -> _Message:
        """Return the message for the fields of `shape` that the definition `message` has."""
        compiled = self._messages.get((shape, message))
        if compiled is None:
            compiled = self._messages[shape, message] = _Message()
            numbers, lists = fields.fields_of(message), fields.LIST_MESSAGES.get(message, ())
            for number, name in numbers.names.items():
                child = shape.fields.get(name)
                if isinstance(child, ListShape) and name in lists:
                    write = self._list_message_writer(number, child)
                else:
                    write = None if child is None else self._writer(number, child)
                if write is not None:
                    compiled.writers[name] = write
            for number, inner in numbers.embedded.items():
                compiled.embedded.append((tag(number, BYTES), self._compiled(shape, inner)))
        return compiled

    def _writer(self, number: int, shape: Shape) -> Write | None:
        """Return what writes a field; None for one that protobuf does not have."""
        match shape:
            case ListShape():
                return self._list_writer(number, shape)
            case MapShape():
                return self._map_writer(number, shape)
            case StructShape():
                return self._struct_writer(number, shape)
            case BoolShape():
                return _bool_writer(number)
            case IntShape():
                return _int_writer(number)
            case NumberShape():
                return _double_writer(number)
            case TimeShape():
                return _content_writer(number, _micro_time if shape.is_micro else _time)
            case BytesShape():
                return _content_writer(number, base64.b64decode)
            case StringShape():
                return _content_writer(number, str.encode)
            case IntOrStringShape():
                return _content_writer(number, _int_or_string)
            case QuantityShape():
                return _content_writer(number, _quantity)
            case JsonShape():
                return _content_writer(number, _json)
            case SubschemaShape():
                return self._schema_or_writer(number, shape)
        return None

    def _struct_writer(self, number: int, shape: StructShape) -> Write:
        start, compiled = tag(number, BYTES), self._compiled(shape, shape.definition)

        def write(into: bytearray, value: JsonObject) -> None:
            inner = bytearray()
            compiled.write(inner, value)
            _append(into, start, inner)

        return write

    def _list_writer(self, number: int, shape: ListShape) -> Write | None:
        write_item = self._writer(number, shape.items)
        if write_item is None:
            return None

        def write(into: bytearray, value: list[Any]) -> None:
            for item in value:
                write_item(into, item)

        return write

    def _map_writer(self, number: int, shape: MapShape) -> Write | None:
        start, write_key = tag(number, BYTES), _content_writer(fields.MAP_KEY, str.encode)
        write_value = self._map_value_writer(shape.values)
        if write_value is None:
            return None

        def write(into: bytearray, value: JsonObject) -> None:
            for key in sorted(value):
                entry = bytearray()
                write_key(entry, key)
                write_value(entry, value[key])
                _append(into, start, entry)

        return write

    def _schema_or_writer(self, number: int, shape: SubschemaShape) -> Write | None:
        """Return what writes a JSONSchemaPropsOrBool, JSONSchemaPropsOrArray or JSONSchemaPropsOrStringArray."""
        start, is_list = tag(number, BYTES), isinstance(shape.other, ListShape)
        write_schema = self._writer(
            fields.SCHEMA_OR_LIST_SCHEMA if is_list else fields.SCHEMA_OR_BOOL_SCHEMA, shape.schema
        )
        write_other = self._writer(
            fields.SCHEMA_OR_LIST_ITEMS if is_list else fields.SCHEMA_OR_BOOL_ALLOWS, shape.other
        )
        if write_schema is None or write_other is None:
            return None

        def write(into: bytearray, value: Any) -> None:
            inner = bytearray()
            if type(value) is dict:
                if not is_list:
                    write_other(inner, True)
                write_schema(inner, value)
            else:
                write_other(inner, value)
            _append(into, start, inner)

        return write

    def _map_value_writer(self, shape: Shape) -> Write | None:
        if isinstance(shape, ListShape):
            return self._list_message_writer(fields.MAP_VALUE, shape)
        return self._writer(fields.MAP_VALUE, shape)

    def _list_message_writer(self, number: int, shape: ListShape) -> Write | None:
        """Return what writes a list that is the first field of a message of its own (`ExtraValue`, `Verbs`)."""
        start, write_items = tag(number, BYTES), self._writer(fields.LIST_ITEMS, shape)
        if write_items is None:
            return None

        def write(into: bytearray, value: list[Any]) -> None:
            inner = bytearray()
            write_items(inner, value)
            _append(into, start, inner)

        return write


def _content_writer(number: int, content_of: Callable[[Any], bytes]) -> Write:
    start = tag(number, BYTES)

    def write(into: bytearray, value: Any) -> None:
        content = content_of(value)
        into += start
        into += varint(len(content))
        into += content

    return write


def _bool_writer(number: int) -> Write:
    true, false = tag(number, VARINT) + b"\1", tag(number, VARINT) + b"\0"

    def write(into: bytearray, value: bool) -> None:
        into += true if value else false

    return write


def _int_writer(number: int) -> Write:
    start = tag(number, VARINT)

    def write(into: bytearray, value: int) -> None:
        into += start
        into += varint(value)

    return write


def _double_writer(number: int) -> Write:
    start, pack = tag(number, FIXED64), struct.Struct("<d").pack

    def write(into: bytearray, value: float) -> None:
        into += start
        into += pack(value)

    return write


_ESCAPED = tuple(chr(character).encode() for character in JSON_ESCAPES)
_SECONDS, _NANOS = tag(fields.TIME_SECONDS, VARINT), tag(fields.TIME_NANOS, VARINT)
_INT_VALUE = tag(fields.INT_OR_STRING_INT, VARINT)
_STRING_TYPE = tag(fields.INT_OR_STRING_TYPE, VARINT) + varint(fields.TYPE_STRING)


def _since_epoch(text: str) -> tuple[int, int]:
    """Return whole seconds and microseconds since the epoch."""
    passed = datetime.fromisoformat(text) - _EPOCH
    return passed.days * 86400 + passed.seconds, passed.microseconds


def _time(text: str) -> bytes:
    # These times have whole seconds in protobuf, too.
    return _SECONDS + varint(_since_epoch(text)[0])


def _micro_time(text: str) -> bytes:
    seconds, micros = _since_epoch(text)
    return _SECONDS + varint(seconds) + _NANOS + varint(micros * 1000)


def _int_or_string(value: int | str) -> bytes:
    if isinstance(value, str):
        return _STRING_TYPE + field(fields.INT_OR_STRING_STRING, value.encode())
    return _INT_VALUE + varint(value)


def _quantity(value: str | int) -> bytes:
    return field(fields.QUANTITY_STRING, str(value).encode())


def _json(value: Any) -> bytes:
    text = msgspec.json.encode(value)
    if any(character in text for character in _ESCAPED):
        # As Go's encoder, because clients compare the bytes of ControllerRevisions with what that encodes.
        text = text.decode().translate(JSON_ESCAPES).encode()
    return field(fields.RAW, text)

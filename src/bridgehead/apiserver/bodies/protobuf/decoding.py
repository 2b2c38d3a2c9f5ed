"""Decoding of protobuf bodies, which Go clients (among them kubectl 1.32 and newer) send by default.

The envelope is four bytes and a `runtime.Unknown`; fields inside have numbers. Truncated or malformed input raises
`BadPacket`. Source: apimachinery/pkg/runtime/serializer/protobuf, protobuf encoding.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import Any

import msgspec

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
from bridgehead.objects.times import format_micro_time, format_time
from bridgehead.protobuf_wire import BYTES, FIXED32, FIXED64, VARINT

from . import fields

_MAX_DEPTH = 64

Wire = int | bytes


class BadPacket(Exception):
    """The bytes are not a valid message of the expected type."""


def decode_envelope_untrusted(body: bytes) -> tuple[str, str, bytes]:
    """Return (apiVersion, kind, message) of a request's body. Raises `BadPacket`."""
    if not body.startswith(fields.MAGIC):
        prefix = " ".join(map(str, fields.MAGIC))
        why = f"provided data does not appear to be a protobuf message, expected prefix [{prefix}]"
        raise BadPacket(why if body else "empty data")
    version, kind, raw = "", "", b""
    for number, value in split_untrusted(memoryview(body)[len(fields.MAGIC) :]):
        if number == fields.UNKNOWN_TYPE_META:
            for inner, text in split_untrusted(memoryview(_bytes(value))):
                if inner == fields.TYPE_META_API_VERSION:
                    version = _text(text)
                elif inner == fields.TYPE_META_KIND:
                    kind = _text(text)
        elif number == fields.UNKNOWN_RAW:
            raw = _bytes(value)
    return version, kind, raw


def decode_message_untrusted(raw: bytes, shape: Shape) -> JsonObject:
    """Decode a message into the object that JSON would have; drop unknown numbers. Raises `BadPacket`."""
    if not isinstance(shape, StructShape):
        raise BadPacket("the kind has no fields")
    if not fields.has_fields(shape.definition):
        # All its fields would be dropped.
        raise BadPacket(f"the numbers of the fields of {shape.name} are not known: send JSON")
    obj: JsonObject = {}
    _read_struct(raw, shape, shape.definition, obj, 0)
    return obj


def _read_struct(raw: bytes, shape: StructShape, message: str, into: JsonObject, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise BadPacket("messages are nested too deeply")
    numbers, lists = fields.fields_of(message), fields.LIST_MESSAGES.get(message, ())
    for number, value in split_untrusted(memoryview(raw)):
        name = numbers.names.get(number)
        if name is not None:
            child = shape.fields.get(name)
            if isinstance(child, ListShape) and name in lists:
                into[name] = _list_message(value, child, depth)
            elif child is not None:
                _read_field(value, child, name, into, depth)
        elif number in numbers.embedded:
            _read_struct(_bytes(value), shape, numbers.embedded[number], into, depth + 1)


def _read_field(value: Wire, shape: Shape, name: str, into: JsonObject, depth: int) -> None:
    if isinstance(shape, ListShape):
        into.setdefault(name, []).extend(_list_items(value, shape, depth))
    elif isinstance(shape, MapShape):
        key, item = _map_entry(value, shape, depth)
        into.setdefault(name, {})[key] = item
    else:
        decoded = _read_value(value, shape, depth)
        if decoded is not None:
            into[name] = decoded


def _list_items(value: Wire, shape: ListShape, depth: int) -> list[Any]:
    if isinstance(shape.items, IntShape) and isinstance(value, bytes):
        return [_signed(number) for number in _packed(value)]
    return [_read_value(value, shape.items, depth)]


def _map_entry(value: Wire, shape: MapShape, depth: int) -> tuple[str, Any]:
    key, item = "", None
    for number, part in split_untrusted(memoryview(_bytes(value))):
        if number == fields.MAP_KEY:
            key = _text(part)
        elif number == fields.MAP_VALUE:
            item = _map_value(part, shape.values, depth)
    return key, item


def _map_value(value: Wire, shape: Shape, depth: int) -> Any:
    if isinstance(shape, ListShape):
        return _list_message(value, shape, depth)
    return _read_value(value, shape, depth)


def _list_message(value: Wire, shape: ListShape, depth: int) -> list[Any]:
    """Decode a list that is the first field of a message of its own (`ExtraValue`, `Verbs`)."""
    return [
        item
        for number, part in split_untrusted(memoryview(_bytes(value)))
        if number == fields.LIST_ITEMS
        for item in _list_items(part, shape, depth)
    ]


def _read_value(value: Wire, shape: Shape, depth: int) -> Any:
    match shape:
        case StructShape():
            obj: JsonObject = {}
            _read_struct(_bytes(value), shape, shape.definition, obj, depth + 1)
            return obj
        case TimeShape():
            return _time(_bytes(value), micro=shape.is_micro)
        case BytesShape():
            return base64.b64encode(_bytes(value)).decode()
        case StringShape():
            return _text(value)
        case BoolShape():
            return bool(_number(value))
        case IntShape():
            return _signed(_number(value))
        case NumberShape():
            return struct.unpack("<d", _number(value).to_bytes(8, "little"))[0]
        case IntOrStringShape():
            return _int_or_string(_bytes(value))
        case QuantityShape():
            parts = split_untrusted(memoryview(_bytes(value)))
            return next((_text(part) for number, part in parts if number == fields.QUANTITY_STRING), "0")
        case JsonShape():
            return _json(_bytes(value))
        case SubschemaShape():
            return _schema_or(_bytes(value), shape, depth)
    return None


def _schema_or(raw: bytes, shape: SubschemaShape, depth: int) -> Any:
    """Decode a JSONSchemaPropsOrBool, JSONSchemaPropsOrArray or JSONSchemaPropsOrStringArray."""
    parts = list(split_untrusted(memoryview(raw)))
    is_list = isinstance(shape.other, ListShape)
    number_of_schema = fields.SCHEMA_OR_LIST_SCHEMA if is_list else fields.SCHEMA_OR_BOOL_SCHEMA
    for number, part in parts:
        if number == number_of_schema:
            return _read_value(part, shape.schema, depth)
    if isinstance(shape.other, ListShape):
        items = (part for number, part in parts if number == fields.SCHEMA_OR_LIST_ITEMS)
        return [item for part in items for item in _list_items(part, shape.other, depth)]
    return any(_number(part) for number, part in parts if number == fields.SCHEMA_OR_BOOL_ALLOWS)


def _json(raw: bytes) -> Any:
    text = next((_bytes(part) for number, part in split_untrusted(memoryview(raw)) if number == fields.RAW), b"")
    try:
        return msgspec.json.decode(text) if text else None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadPacket("a value that is JSON in protobuf cannot be decoded") from error


def _time(raw: bytes, *, micro: bool) -> str | None:
    """Decode a time; None for the zero time, which stands for an unset one."""
    numbers = {number: _signed(_number(part)) for number, part in split_untrusted(memoryview(raw))}
    if not numbers:
        return None
    seconds, nanos = numbers.get(fields.TIME_SECONDS, 0), numbers.get(fields.TIME_NANOS, 0)
    try:
        return format_micro_time(seconds + nanos / 1e9) if micro else format_time(seconds)
    except (ValueError, OverflowError, OSError) as error:
        raise BadPacket(f"a time is out of range: {seconds}") from error


def _int_or_string(raw: bytes) -> int | str:
    kind, number, text = 0, 0, ""
    for field, part in split_untrusted(memoryview(raw)):
        if field == fields.INT_OR_STRING_TYPE:
            kind = _number(part)
        elif field == fields.INT_OR_STRING_INT:
            number = _signed(_number(part))
        elif field == fields.INT_OR_STRING_STRING:
            text = _text(part)
    return text if kind == fields.TYPE_STRING else number


# --- the wire format


def split_untrusted(data: memoryview) -> Iterator[tuple[int, Wire]]:
    """Yield the numbers and values of a message's fields, in their order."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        wire = tag & 7
        if wire == VARINT:
            number, position = _varint(data, position)
            yield tag >> 3, number
            continue
        if wire == BYTES:
            length, position = _varint(data, position)
        elif wire in (FIXED64, FIXED32):
            length = 8 if wire == FIXED64 else 4
        else:
            raise BadPacket(f"wire type {wire}")
        if length > end - position:
            raise BadPacket("a field is cut off")
        piece = bytes(data[position : position + length])
        position += length
        yield tag >> 3, piece if wire == BYTES else int.from_bytes(piece, "little")


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise BadPacket("a number is cut off")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _packed(value: bytes) -> Iterator[int]:
    data, position = memoryview(value), 0
    while position < len(data):
        number, position = _varint(data, position)
        yield number


def _signed(number: int) -> int:
    number &= 0xFFFFFFFFFFFFFFFF
    return number - 2**64 if number >= 2**63 else number


def _bytes(value: Wire) -> bytes:
    if not isinstance(value, bytes):
        raise BadPacket("a number stands where a message or a text should")
    return value


def _number(value: Wire) -> int:
    if not isinstance(value, int):
        raise BadPacket("a text stands where a number should")
    return value


def _text(value: Wire) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError as error:
        raise BadPacket("a text is not UTF-8") from error

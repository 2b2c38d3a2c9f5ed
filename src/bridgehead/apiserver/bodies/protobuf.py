"""Decoding of protobuf bodies, which Go clients (among them kubectl 1.32 and newer) send by default.

The envelope is four bytes and a `runtime.Unknown`; fields inside have numbers. The numbers, which are stable, are in
`protobuf_fields.txt`; the types of fields follow from the schema. Answers are never protobuf: these clients also accept
JSON. Truncated or malformed input raises `BadPacket`.
Source: apimachinery/pkg/runtime/serializer/protobuf, protobuf encoding, the generated.proto files of k8s.io/api.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Any

import msgspec

from bridgehead.apiserver.resource import JsonObject
from bridgehead.objects.times import format_micro_time, format_time

from .schema import (
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
    TimeShape,
)

MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_DEPTH = 64

# Field numbers of messages that are not in `protobuf_fields.txt` (generated.proto of apimachinery and
# authentication/v1; map entries as in the protobuf encoding).
_UNKNOWN_TYPE_META, _UNKNOWN_RAW = 1, 2
_TYPE_META_API_VERSION, _TYPE_META_KIND = 1, 2
_MAP_KEY, _MAP_VALUE = 1, 2
_EXTRA_VALUE_ITEMS = 1
_TIME_SECONDS, _TIME_NANOS = 1, 2
_INT_OR_STRING_TYPE, _INT_OR_STRING_INT, _INT_OR_STRING_STRING = 1, 2, 3
_QUANTITY_STRING = 1
_FIELDS_V1_RAW = 1
_TYPE_STRING = 1  # of intstr.Type

Wire = int | bytes


class BadPacket(Exception):
    """The bytes are not a valid message of the expected type."""


class Fields:
    """The numbered fields of one message.

    `names` are JSON names by number; `embedded` are embedded messages, whose fields JSON has in the outer object.
    """

    __slots__ = ("embedded", "names")

    def __init__(self, entries: list[str]) -> None:
        self.names: dict[int, str] = {}
        self.embedded: dict[int, str] = {}
        for entry in entries:
            name, _, number = entry.rstrip("*").partition("=")
            if name.startswith("@"):
                self.embedded[int(number)] = name[1:]
            else:
                self.names[int(number)] = name


@lru_cache(maxsize=1)
def _lines() -> dict[str, str]:
    text = files("bridgehead.apiserver.bodies").joinpath("protobuf_fields.txt").read_text()
    return dict(line.partition(" ")[::2] for line in text.splitlines() if not line.startswith("#"))


@lru_cache(maxsize=1024)
def _fields(message: str) -> Fields:
    """Return the fields of a message. `message` is the definition's name without `io.k8s.api.`."""
    return Fields(_lines().get(message, "").split())


def decode_envelope_untrusted(body: bytes) -> tuple[str, str, bytes]:
    """Return (apiVersion, kind, message) of a request's body. Raises `BadPacket`."""
    if not body.startswith(MAGIC):
        raise BadPacket("the body does not begin with the magic number of Kubernetes' protobuf")
    version, kind, raw = "", "", b""
    for number, value in _split(memoryview(body)[len(MAGIC) :]):
        if number == _UNKNOWN_TYPE_META:
            for inner, text in _split(memoryview(_bytes(value))):
                if inner == _TYPE_META_API_VERSION:
                    version = _text(text)
                elif inner == _TYPE_META_KIND:
                    kind = _text(text)
        elif number == _UNKNOWN_RAW:
            raw = _bytes(value)
    return version, kind, raw


def decode_message_untrusted(raw: bytes, shape: Shape) -> JsonObject:
    """Decode a message into the object that JSON would have; drop unknown numbers. Raises `BadPacket`."""
    if not isinstance(shape, StructShape):
        raise BadPacket("the kind has no fields")
    if shape.definition.removeprefix("io.k8s.api.") not in _lines():
        # All its fields would be dropped.
        raise BadPacket(f"the numbers of the fields of {shape.name} are not known: send JSON")
    obj: JsonObject = {}
    _read_struct(raw, shape, shape.definition, obj, 0)
    return obj


def _read_struct(raw: bytes, shape: StructShape, message: str, into: JsonObject, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise BadPacket("messages are nested too deeply")
    fields = _fields(message.removeprefix("io.k8s.api."))
    for number, value in _split(memoryview(raw)):
        name = fields.names.get(number)
        if name is not None:
            child = shape.fields.get(name)
            if child is not None:
                _read_field(value, child, name, into, depth)
        elif number in fields.embedded:
            inner = fields.embedded[number]
            full = inner if inner.startswith("io.k8s.") else f"io.k8s.api.{inner}"
            _read_struct(_bytes(value), shape, full, into, depth + 1)


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
    for number, part in _split(memoryview(_bytes(value))):
        if number == _MAP_KEY:
            key = _text(part)
        elif number == _MAP_VALUE:
            item = _map_value(part, shape.values, depth)
    return key, item


def _map_value(value: Wire, shape: Shape, depth: int) -> Any:
    if isinstance(shape, ListShape):
        # A list in a map is the first field of a message of its own (`ExtraValue`).
        return [
            item
            for number, part in _split(memoryview(_bytes(value)))
            if number == _EXTRA_VALUE_ITEMS
            for item in _list_items(part, shape, depth)
        ]
    return _read_value(value, shape, depth)


def _read_value(value: Wire, shape: Shape, depth: int) -> Any:
    match shape:
        case StructShape():
            obj: JsonObject = {}
            _read_struct(_bytes(value), shape, shape.definition, obj, depth + 1)
            return obj
        case TimeShape():
            return _time(_bytes(value), micro=shape.go.endswith("MicroTime"))
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
            fields = _split(memoryview(_bytes(value)))
            return next((_text(part) for number, part in fields if number == _QUANTITY_STRING), "0")
        case JsonShape():
            return _json(_bytes(value))
    return None


def _json(raw: bytes) -> Any:
    text = next((_bytes(part) for number, part in _split(memoryview(raw)) if number == _FIELDS_V1_RAW), b"")
    try:
        return msgspec.json.decode(text) if text else None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadPacket("a set of fields is not JSON") from error


def _time(raw: bytes, *, micro: bool) -> str | None:
    """Decode a time; None for the zero time, which stands for an unset one."""
    numbers = {number: _signed(_number(part)) for number, part in _split(memoryview(raw))}
    if not numbers:
        return None
    seconds, nanos = numbers.get(_TIME_SECONDS, 0), numbers.get(_TIME_NANOS, 0)
    try:
        return format_micro_time(seconds + nanos / 1e9) if micro else format_time(seconds)
    except (ValueError, OverflowError, OSError) as error:
        raise BadPacket(f"a time is out of range: {seconds}") from error


def _int_or_string(raw: bytes) -> int | str:
    kind, number, text = 0, 0, ""
    for field, part in _split(memoryview(raw)):
        if field == _INT_OR_STRING_TYPE:
            kind = _number(part)
        elif field == _INT_OR_STRING_INT:
            number = _signed(_number(part))
        elif field == _INT_OR_STRING_STRING:
            text = _text(part)
    return text if kind == _TYPE_STRING else number


# --- the wire format


def _split(data: memoryview) -> Iterator[tuple[int, Wire]]:
    """Yield the numbers and values of a message's fields, in their order."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        wire = tag & 7
        if wire == _VARINT:
            number, position = _varint(data, position)
            yield tag >> 3, number
            continue
        if wire == _BYTES:
            length, position = _varint(data, position)
        elif wire in (_FIXED64, _FIXED32):
            length = 8 if wire == _FIXED64 else 4
        else:
            raise BadPacket(f"wire type {wire}")
        if length > end - position:
            raise BadPacket("a field is cut off")
        piece = bytes(data[position : position + length])
        position += length
        yield tag >> 3, piece if wire == _BYTES else int.from_bytes(piece, "little")


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


def plain_scalars(definition: str) -> frozenset[str]:
    """Return the fields whose zero value is equivalent to none: in Go no pointers, and omitted from JSON when zero.

    Empty for a definition that is not listed.
    """
    entries = _lines().get(definition.removeprefix("io.k8s.api."), "").split()
    return frozenset(entry.partition("=")[0] for entry in entries if not entry.endswith("*") and entry[0] != "@")

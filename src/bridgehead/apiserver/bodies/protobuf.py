"""Reads objects that clients send as protobuf: Go clients, kubectl 1.32 and newer among them, do so without asking.

The envelope is four bytes and a `runtime.Unknown`; inside it fields are numbered. The numbers, which never change once
given, are in `protobuf_fields.txt`; what each field is follows from the schema. Answers are never protobuf: these
clients accept JSON as well. Called by `decoding`; refuses, with `BadPacket`, what is cut off or does not fit
(source: apimachinery/pkg/runtime/serializer/protobuf, protobuf encoding, the generated.proto files of k8s.io/api).
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Any

from bridgehead.apiserver.resource import JsonObject
from bridgehead.objects.times import format_micro_time, format_time

from .schema import (
    BoolShape,
    BytesShape,
    IntOrStringShape,
    IntShape,
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

Wire = int | bytes


class BadPacket(Exception):
    """The bytes are not the message they are said to be."""


class Fields:
    """The numbered fields of one message.

    `names` are JSON names by number; `embedded` are messages whose own fields appear in JSON as this one's.
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
    """`message` is the definition's name without `io.k8s.api.`."""
    return Fields(_lines().get(message, "").split())


def decode_envelope_untrusted(body: bytes) -> tuple[str, str, bytes]:
    """(apiVersion, kind, message) of a request's body. Raises `BadPacket`."""
    if not body.startswith(MAGIC):
        raise BadPacket("the body does not begin with the magic number of Kubernetes' protobuf")
    version, kind, raw = "", "", b""
    for number, value in _split(memoryview(body)[len(MAGIC) :]):
        if number == 1:
            for inner, text in _split(memoryview(_bytes(value))):
                if inner == 1:
                    version = _text(text)
                elif inner == 2:
                    kind = _text(text)
        elif number == 2:
            raw = _bytes(value)
    return version, kind, raw


def decode_message_untrusted(raw: bytes, shape: Shape) -> JsonObject:
    """A message as JSON would have it; what the numbers do not know is left out. Raises `BadPacket`."""
    if not isinstance(shape, StructShape):
        raise BadPacket("the kind has no fields")
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
        taken = _read_value(value, shape, depth)
        if taken is not None:
            into[name] = taken


def _list_items(value: Wire, shape: ListShape, depth: int) -> list[Any]:
    if isinstance(shape.items, IntShape) and isinstance(value, bytes):
        return [_signed(number) for number in _packed(value)]
    return [_read_value(value, shape.items, depth)]


def _map_entry(value: Wire, shape: MapShape, depth: int) -> tuple[str, Any]:
    key, item = "", None
    for number, part in _split(memoryview(_bytes(value))):
        if number == 1:
            key = _text(part)
        elif number == 2:
            item = _map_value(part, shape.values, depth)
    return key, item


def _map_value(value: Wire, shape: Shape, depth: int) -> Any:
    if isinstance(shape, ListShape):
        # A list in a map is wrapped in a message of its own (`ExtraValue`), whose first field it is.
        return [
            item
            for number, part in _split(memoryview(_bytes(value)))
            if number == 1
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
            return next((_text(part) for number, part in _split(memoryview(_bytes(value))) if number == 1), "0")
    return None


def _time(raw: bytes, *, micro: bool) -> str | None:
    """None for the zero time, which an unset one is sent as."""
    numbers = {number: _signed(_number(part)) for number, part in _split(memoryview(raw))}
    if not numbers:
        return None
    seconds, nanos = numbers.get(1, 0), numbers.get(2, 0)
    try:
        return format_micro_time(seconds + nanos / 1e9) if micro else format_time(seconds)
    except (ValueError, OverflowError, OSError) as error:
        raise BadPacket(f"a time is out of range: {seconds}") from error


def _int_or_string(raw: bytes) -> int | str:
    kind, number, text = 0, 0, ""
    for field, part in _split(memoryview(raw)):
        if field == 1:
            kind = _number(part)
        elif field == 2:
            number = _signed(_number(part))
        elif field == 3:
            text = _text(part)
    return text if kind == 1 else number


# --- the wire


def _split(data: memoryview) -> Iterator[tuple[int, Wire]]:
    """Numbers and values of a message's fields, in the order they were sent."""
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
    """Fields whose zero value is the same as none: in Go they are no pointers, and JSON omits them when they are zero.

    Empty for a definition that is not listed.
    """
    entries = _lines().get(definition.removeprefix("io.k8s.api."), "").split()
    return frozenset(entry.partition("=")[0] for entry in entries if not entry.endswith("*") and entry[0] != "@")

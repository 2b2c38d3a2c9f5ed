"""Netlink messages and attributes: encoding and decoding. Pure: no I/O, no clock, no randomness.

Source: netlink(7), linux/netlink.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, TypeVar

from .uapi.netlink import NLA_F_NESTED, NLA_TYPE_MASK

Data = TypeVar("Data", bytes, memoryview)

MESSAGE_HEADER: Final = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence number, port
ATTRIBUTE_HEADER: Final = struct.Struct("=HH")  # struct nlattr: length, type


def aligned(length: int) -> int:
    """Return the length with padding: messages and attributes begin at multiples of 4 bytes."""
    return (length + 3) & ~3


def attribute(kind: int, value: bytes) -> bytes:
    """Return one attribute, padded."""
    return ATTRIBUTE_HEADER.pack(ATTRIBUTE_HEADER.size + len(value), kind) + value + b"\0" * (-len(value) % 4)


def nest(kind: int, value: bytes) -> bytes:
    """Return an attribute that contains attributes."""
    return attribute(kind | NLA_F_NESTED, value)


def text(kind: int, value: str) -> bytes:
    """Return an attribute with a NUL-terminated string."""
    return attribute(kind, value.encode() + b"\0")


def u16(kind: int, value: int) -> bytes:
    """Return an attribute with a 16-bit number in the machine's byte order."""
    return attribute(kind, struct.pack("=H", value))


def u32(kind: int, value: int) -> bytes:
    """Return an attribute with a 32-bit number in the machine's byte order."""
    return attribute(kind, struct.pack("=I", value))


def be16(kind: int, value: int) -> bytes:
    """Return an attribute with a 16-bit number in network byte order."""
    return attribute(kind, struct.pack("!H", value))


def be32(kind: int, value: int) -> bytes:
    """Return an attribute with a 32-bit number in network byte order."""
    return attribute(kind, struct.pack("!I", value))


def parse_text(value: bytes) -> str:
    """Return the string of a `text` attribute's value."""
    return value.rstrip(b"\0").decode(errors="replace")


def parse_attributes(data: bytes) -> dict[int, bytes]:
    """Return the attributes of a message or a nest by their types; the last one of each type."""
    return dict(each_attribute(data))


def each_attribute(data: Data) -> Iterator[tuple[int, Data]]:
    """Yield the type and value of each attribute; the values of a memoryview are memoryviews."""
    offset = 0
    while offset + ATTRIBUTE_HEADER.size <= len(data):
        length, kind = ATTRIBUTE_HEADER.unpack_from(data, offset)
        yield kind & NLA_TYPE_MASK, data[offset + ATTRIBUTE_HEADER.size : offset + length]
        offset += max(aligned(length), ATTRIBUTE_HEADER.size)


def each_message(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield the type, flags, sequence number and payload of each message of one datagram."""
    offset = 0
    while offset + MESSAGE_HEADER.size <= len(data):
        length, kind, flags, sequence, _ = MESSAGE_HEADER.unpack_from(data, offset)
        yield kind, flags, sequence, data[offset + MESSAGE_HEADER.size : offset + length]
        offset += max(aligned(length), MESSAGE_HEADER.size)

"""The wire format of protobuf: numbers of variable length, and fields.

Pure: no I/O, no clock, no randomness. Source: the protobuf encoding, https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

# Wire types.
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

_SHORT = tuple(bytes((number,)) for number in range(128))


def varint(number: int) -> bytes:
    """Return the variable-length encoding of a 64-bit integer; a negative one takes ten bytes."""
    if 0 <= number < 128:
        return _SHORT[number]
    number &= 0xFFFFFFFFFFFFFFFF
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def tag(number: int, wire: int) -> bytes:
    """Return the start of a field."""
    return varint(number << 3 | wire)


def field(number: int, content: bytes) -> bytes:
    """Return a field whose value is a message or a text."""
    return tag(number, BYTES) + varint(len(content)) + content

"""DNS messages as bytes: numbers, names, and queries.

Pure: no I/O, no clock, no randomness. Sources: RFC 1035, 6891.

Functions whose names end in `_untrusted` take bytes from the network and raise only BadPacket. Replies are made in
`replies.py`; those of upstreams are parsed in `upstream_replies.py`.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import NamedTuple

from bridgehead.dns.errors import BadPacket

HEADER_SIZE = 12
UDP_SIZE = 512  # bytes of the largest UDP reply without EDNS
LARGEST = 65535  # bytes of the largest message

TYPES = {
    "A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "OPT": 41, "ANY": 255
}  # fmt: skip
TYPE_NAMES = {number: name for name, number in TYPES.items()} | {
    13: "HINFO", 35: "NAPTR", 43: "DS", 46: "RRSIG", 47: "NSEC", 48: "DNSKEY", 50: "NSEC3", 52: "TLSA", 64: "SVCB",
    65: "HTTPS", 251: "IXFR", 252: "AXFR", 257: "CAA"
}  # fmt: skip
OPT, HINFO, AXFR, IXFR, ANY = 41, 13, 252, 251, 255
CLIENT_SUBNET = 8  # an option of EDNS (RFC 7871)
IN = 1

NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED = range(6)
BADVERS = 16
RCODE_NAMES = ("NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED")

# Flags in the second 16 bits of a header, as (first byte, second byte).
QR, AA, TC, RD = 0x80, 0x04, 0x02, 0x01
RA, AD, CD = 0x80, 0x20, 0x10
OPCODE = 0x78  # in the first byte; 0 is a query


class Edns(NamedTuple):
    """The OPT record of a query."""

    size: int
    version: int
    do: bool
    options: bytes = b""  # as received

    def has_option(self, code: int) -> bool:
        """Whether one of the options has this code. Malformed bytes are no option."""
        at = 0
        while at + 4 <= len(self.options):
            if int.from_bytes(self.options[at : at + 2], "big") == code:
                return True
            at += 4 + int.from_bytes(self.options[at + 2 : at + 4], "big")
        return False


class Query(NamedTuple):
    """A valid query with one question.

    `name` is in lower-case wire form, `labels` are the offsets of its labels, `question` has the bytes as received.
    """

    id: bytes
    flags: int  # the first byte of the flags
    flags2: int  # the second
    name: bytes
    labels: tuple[int, ...]
    type: int
    class_: int
    question: bytes
    edns: Edns | None

    @property
    def key(self) -> bytes:
        """The key of the question in a table of answers."""
        return self.name + self.question[-4:]


def with_name(query: Query, name: bytes) -> Query:
    """Return the query for another name, in wire form."""
    labels = []
    at = 0
    while name[at]:
        labels.append(at)
        at += 1 + name[at]
    return query._replace(name=name, labels=tuple(labels), question=name + query.question[-4:])


def encode_name(name: str) -> bytes:
    """Return the wire form of a name, in its case: "a.b" -> 01 'a' 01 'b' 00. Raises ValueError for an invalid name."""
    label, dot, parent = name.partition(".")
    encoded = _encode_label(label) + (_encode_parent(parent) if dot else b"\0") if name else b"\0"
    if len(encoded) > 255:
        raise ValueError(f"{name!r} is longer than a name can be")
    return encoded


@lru_cache(maxsize=1024)
def _encode_parent(name: str) -> bytes:
    """Encode the rest of a name, cached: many names have few parents."""
    return b"".join(_encode_label(label) for label in name.split(".")) + b"\0"


def _encode_label(label: str) -> bytes:
    if not 0 < len(label) < 64:
        raise ValueError(f"a label has 1 to 63 bytes, not {len(label)}")
    return chr(len(label)).encode("ascii") + label.encode("ascii")


def decode_name(wire: bytes) -> str:
    """Return the text of an uncompressed name; unprintable bytes as \\DDD. "" is the root."""
    labels = []
    at = 0
    while wire[at]:
        label = wire[at + 1 : at + 1 + wire[at]]
        labels.append("".join(chr(b) if 33 <= b < 127 and b not in b".\\" else f"\\{b:03d}" for b in label))
        at += 1 + wire[at]
    return ".".join(labels)


@lru_cache(maxsize=16384)
def packed(address: str) -> bytes:
    """Return the 4 or 16 bytes of an address."""
    return ipaddress.ip_address(address).packed


def question_key(name: bytes, type: int, class_: int = IN) -> bytes:
    """Return the key of a question in a table of answers: lower-case wire name, type and class."""
    return name + type.to_bytes(2, "big") + class_.to_bytes(2, "big")


def parse_query_untrusted(data: bytes) -> Query:
    """Parse a query with one question. Raises BadPacket for any other message, replies included."""
    if len(data) < HEADER_SIZE:
        raise BadPacket("shorter than a header")
    if data[2] & QR:
        raise BadPacket("a reply, not a query")
    if data[4:6] != b"\0\1":
        raise BadPacket("not one question")
    labels = []
    at = HEADER_SIZE
    try:
        while length := data[at]:
            if length > 63:
                raise BadPacket("a label longer than 63 bytes, or a compressed question")
            labels.append(at - HEADER_SIZE)
            at += 1 + length
    except IndexError:
        raise BadPacket("the question ends in the middle") from None
    at += 1
    if at - HEADER_SIZE > 255 or at + 4 > len(data):
        raise BadPacket("a name longer than 255 bytes, or a question that ends in the middle")
    name = data[HEADER_SIZE:at].lower()
    question = data[HEADER_SIZE : at + 4]
    edns = _parse_edns_untrusted(data, at + 4)
    return Query(
        data[:2],
        data[2],
        data[3],
        name,
        tuple(labels),
        int.from_bytes(question[-4:-2], "big"),
        int.from_bytes(question[-2:], "big"),
        question,
        edns,
    )


def _parse_edns_untrusted(data: bytes, at: int) -> Edns | None:
    """Parse the OPT record in the additional section; more than one is an error (RFC 6891, 6.1.1)."""
    counts = [int.from_bytes(data[offset : offset + 2], "big") for offset in (6, 8, 10)]
    found: Edns | None = None
    for number in range(sum(counts)):
        start, kind, class_, length_at = skip_record_untrusted(data, at)
        at = length_at + 2 + int.from_bytes(data[length_at : length_at + 2], "big")
        if kind == OPT and number >= counts[0] + counts[1]:
            if found is not None or start != 1:
                raise BadPacket("two OPT records, or one that has a name")
            found = Edns(class_, data[length_at - 3], bool(data[length_at - 2] & 0x80), data[length_at + 2 : at])
    if at != len(data):
        raise BadPacket("bytes behind the message")
    return found


def skip_record_untrusted(data: bytes, at: int) -> tuple[int, int, int, int]:
    """Return (size of the owner name, type, class, offset of RDLENGTH) of the complete record at offset `at`."""
    end = skip_name_untrusted(data, at)
    length_at = end + 8
    if length_at + 2 > len(data):
        raise BadPacket("a record ends in the middle")
    if length_at + 2 + int.from_bytes(data[length_at : length_at + 2], "big") > len(data):
        raise BadPacket("a record's data is longer than the message")
    return (
        end - at,
        int.from_bytes(data[end : end + 2], "big"),
        int.from_bytes(data[end + 2 : end + 4], "big"),
        length_at,
    )


def skip_name_untrusted(data: bytes, at: int) -> int:
    """Return the offset behind the name at offset `at`. A pointer ends the name and is not followed."""
    try:
        while length := data[at]:
            if length >= 0xC0:
                if at + 2 > len(data):
                    raise BadPacket("a pointer ends in the middle")
                return at + 2
            if length > 63:
                raise BadPacket("a label of a type that does not exist")
            at += 1 + length
    except IndexError:
        raise BadPacket("a name ends in the middle") from None
    return at + 1

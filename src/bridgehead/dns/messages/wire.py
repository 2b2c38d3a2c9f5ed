"""DNS messages as bytes: queries parsed, finished answers encoded, replies assembled.

Pure: no I/O, no clock, no randomness. Sources: RFC 1035, 2181, 2782, 3596, 6891.

Functions whose names end in `_untrusted` take bytes from the network and raise only BadPacket. Replies of upstreams are
parsed in `foreign.py`.

A finished answer has no id and no question. Both are copied from the query, so that the client finds its own mixed case
(0x20). Compression pointers point into the question or behind it, so an answer fits questions of one length only.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from bridgehead.dns.errors import BadPacket

from .records import Data, RecordSets, Soa, Srv

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
IN = 1

NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED = range(6)
BADVERS = 16
RCODE_NAMES = ("NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED")

# In the second 16 bits of a header, as (first byte, second byte).
QR, AA, TC, RD = 0x80, 0x04, 0x02, 0x01
RA, AD, CD = 0x80, 0x20, 0x10
OPCODE = 0x78  # in the first byte; 0 is a query

_POINTER_TO_QUESTION = b"\xc0\x0c"
_LARGEST_POINTER = 0x3FFF


class Edns(NamedTuple):
    """The OPT record of a query."""

    size: int
    version: int
    do: bool


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


class Answer(NamedTuple):
    """A finished answer to every question with one key: reply = id + head + question + body.

    `head` has the flags, for a query with RD, and the counts. `stride` is the size in bytes of one record, if the body
    consists of address records, which rotate; otherwise 0.
    """

    head: bytes
    body: bytes
    stride: int


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


# --- Queries ---------------------------------------------------------------------------------------------------


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
            found = Edns(class_, data[length_at - 3], bool(data[length_at - 2] & 0x80))
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


# --- Finished answers ------------------------------------------------------------------------------------------


class Writer:
    """Encodes the records of one message, compressed. Offsets count from the first byte of the message."""

    def __init__(self, name: bytes) -> None:
        """`name` is that of the question, in wire form."""
        self.body = bytearray()
        self._base = HEADER_SIZE + len(name) + 4
        self._known: dict[bytes, int] = {}
        self._remember(name, HEADER_SIZE)

    def add(self, owner: bytes, kind: str, ttl: int, data: Data) -> None:
        """Add a record; `owner` is in wire form."""
        self._write_name(owner)
        self.body += TYPES[kind].to_bytes(2, "big") + b"\0\1" + ttl.to_bytes(4, "big") + b"\0\0"
        start = len(self.body)
        self._write_data(kind, data)
        self.body[start - 2 : start] = (len(self.body) - start).to_bytes(2, "big")

    def add_plain(self, owner: bytes, type: int, ttl: int, data: bytes) -> None:
        """Add a record whose data is in wire form already, without compression."""
        self._write_name(owner)
        self.body += type.to_bytes(2, "big") + b"\0\1" + ttl.to_bytes(4, "big") + b"\0\0"
        start = len(self.body)
        if type == TYPES["CNAME"]:
            self._write_name(data)
        else:
            self.body += data
        self.body[start - 2 : start] = (len(self.body) - start).to_bytes(2, "big")

    def _write_data(self, kind: str, data: Data) -> None:
        if isinstance(data, Srv):
            self.body += b"".join(number.to_bytes(2, "big") for number in data[:3])
            target = encode_name(data.target)  # not compressed (RFC 2782); later names may point to it
            self._remember(target, self._base + len(self.body))
            self.body += target
        elif isinstance(data, Soa):
            self._write_name(encode_name(data.mname))
            self._write_name(encode_name(data.rname))
            self.body += b"".join(number.to_bytes(4, "big") for number in data[2:])
        elif kind in ("A", "AAAA"):
            self.body += packed(data)
        elif kind == "TXT":
            text = data.encode("ascii")
            self.body += bytes((len(text),)) + text
        else:
            self._write_name(encode_name(data))

    def _write_name(self, name: bytes) -> None:
        at = 0
        while name[at]:
            known = self._known.get(name[at:])
            if known is not None:
                break
            at += 1 + name[at]
        else:
            known = None
        self._remember(name, self._base + len(self.body), until=at)
        self.body += name[:at]
        self.body += b"\0" if known is None else (0xC000 | known).to_bytes(2, "big")

    def _remember(self, name: bytes, offset: int, until: int = 255) -> None:
        at = 0
        while name[at] and at < until and offset + at <= _LARGEST_POINTER:
            self._known.setdefault(name[at:], offset + at)
            at += 1 + name[at]


def head(
    rcode: int,
    answers: int,
    authority: int = 0,
    additional: int = 0,
    *,
    aa: bool = True,
    ra: bool = True,
    ad: bool = False,
) -> bytes:
    """Return the ten bytes behind the id, for a reply to a query with RD."""
    counts = (1, answers, authority, additional)
    flags = bytes((QR | RD | (AA if aa else 0), (RA if ra else 0) | (AD if ad else 0) | rcode))
    return flags + b"".join(min(count, LARGEST).to_bytes(2, "big") for count in counts)


def compile_answer(
    name: bytes, kind: str, sets: RecordSets, ttl: int, glue: Mapping[str, RecordSets], *, ra: bool
) -> Answer:
    """Return the positive answer for `kind` at `name`, with the addresses of SRV and NS targets that are in `glue`."""
    records = sets[kind]
    if kind in ("A", "AAAA"):
        return _compile_addresses(kind, records, ttl, ra=ra)
    writer = Writer(name)
    count = additional = 0
    for data in records:
        if len(writer.body) > LARGEST:  # a message cannot hold more
            return Answer(head_cut(head(NOERROR, 0, ra=ra), count), bytes(writer.body), 0)
        writer.add(name, kind, ttl, data)
        count += 1
    for target in dict.fromkeys(_targets(records)) if kind in ("SRV", "NS") else ():
        for family in ("A", "AAAA"):
            for data in glue.get(target, {}).get(family, ()):
                if len(writer.body) > LARGEST:
                    break
                writer.add(encode_name(target), family, ttl, data)
                additional += 1
    return Answer(head(NOERROR, count, 0, additional, ra=ra), bytes(writer.body), 0)


def _compile_addresses(kind: str, records: Iterable[Data], ttl: int, *, ra: bool) -> Answer:
    size = 4 if kind == "A" else 16
    front = (
        _POINTER_TO_QUESTION
        + TYPES[kind].to_bytes(2, "big")
        + b"\0\1"
        + ttl.to_bytes(4, "big")
        + b"\0"
        + bytes((size,))
    )
    rows = [front + packed(data) for data in records if isinstance(data, str)]
    return Answer(head(NOERROR, len(rows), ra=ra), b"".join(rows), len(front) + size if len(rows) > 1 else 0)


def minimal_any(ttl: int, *, ra: bool) -> Answer:
    """Return the minimal answer to a query for ANY, one HINFO record (RFC 8482), against amplification attacks."""
    data = b"\7RFC8482\0"
    front = _POINTER_TO_QUESTION + HINFO.to_bytes(2, "big") + b"\0\1" + ttl.to_bytes(4, "big") + b"\0"
    return Answer(head(NOERROR, 1, ra=ra), front + bytes((len(data),)) + data, 0)


def _targets(records: Iterable[Data]) -> Iterable[str]:
    for data in records:
        if isinstance(data, Srv):
            yield data.target
        elif isinstance(data, str):
            yield data


# --- Replies ---------------------------------------------------------------------------------------------------


def opt_record(size: int, extended_rcode: int = 0, *, do: bool = False) -> bytes:
    """Return this server's OPT record: `size` is the largest UDP message it accepts; version 0, no options."""
    return b"\0\0\x29" + size.to_bytes(2, "big") + bytes((extended_rcode, 0, 0x80 if do else 0, 0, 0, 0))


def assemble(query: Query, answer: Answer, limit: int, our_size: int, turn: int = 0) -> bytes:
    """Return a reply of at most `limit` bytes. TC is set if answer or authority records are left out.

    Address records rotate: the reply begins with number `turn`, modulo their number.
    """
    front, body, stride = answer
    if stride > 0:
        offset = turn % (len(body) // stride) * stride
        body = body[offset:] + body[:offset]
    tail = b"" if query.edns is None else opt_record(our_size, do=query.edns.do)
    room = limit - HEADER_SIZE - len(query.question) - len(tail)
    if len(body) > room and stride > 0:
        count = room // stride
        front, body = head_cut(front, count), body[: count * stride]
    elif len(body) > room:
        front, body = _cut(front, body, room, HEADER_SIZE + len(query.question))
    flags = front[0] & ~RD | query.flags & (OPCODE | RD)
    flags2 = front[1] | query.flags2 & CD
    if not (query.flags2 & AD or (query.edns is not None and query.edns.do)):
        flags2 &= ~AD  # only for queries with AD or DO (RFC 6840, section 5.8)
    additional = int.from_bytes(front[8:10], "big") + (1 if tail else 0)
    return b"".join(
        (query.id, bytes((flags, flags2)), front[2:8], additional.to_bytes(2, "big"), query.question, body, tail)
    )


def head_cut(front: bytes, count: int) -> bytes:
    """Return the head with TC and `count` answers, for address records of which the others do not fit."""
    return bytes((front[0] | TC,)) + front[1:4] + count.to_bytes(2, "big") + front[6:]


def _cut(front: bytes, body: bytes, room: int, base: int) -> tuple[bytes, bytes]:
    """Keep as many complete records as fit. TC is set for answer and authority records only (RFC 2181, section 9)."""
    counts = [int.from_bytes(front[offset : offset + 2], "big") for offset in (4, 6, 8)]
    kept = [0, 0, 0]
    at = 0
    for section, count in enumerate(counts):
        for _ in range(count):
            _, _, _, length_at = skip_record_untrusted(body, at)
            end = length_at + 2 + int.from_bytes(body[length_at : length_at + 2], "big")
            if end > room:
                break
            at = end
            kept[section] += 1
        if kept[section] < count:
            break
    truncated = kept[:2] != counts[:2]
    flags = bytes((front[0] | (TC if truncated else 0), front[1]))
    return flags + front[2:4] + b"".join(count.to_bytes(2, "big") for count in kept), body[:at]


def error_reply(query: Query, rcode: int, our_size: int, *, ra: bool) -> bytes:
    """Return a reply without records. `rcode` may be an extended one if the query has EDNS."""
    answer = Answer(head(rcode & 15, 0, aa=False, ra=ra), b"", 0)
    reply = assemble(query, answer, LARGEST, our_size)
    if rcode > 15 and query.edns is not None:
        reply = reply[: -len(opt_record(0))] + opt_record(our_size, rcode >> 4)
    return reply


def format_error_untrusted(data: bytes) -> bytes | None:
    """Return FORMERR, without a question, for a malformed query; None for what is no query."""
    if len(data) < HEADER_SIZE or data[2] & QR:
        return None
    return data[:2] + bytes((QR | data[2] & (OPCODE | RD), FORMERR)) + bytes(8)

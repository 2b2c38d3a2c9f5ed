"""Replies: answers encoded once, then assembled for each query.

Pure: no I/O, no clock, no randomness. Sources: RFC 1035, 2181, 2782, 3596, 6891, 8482.

A finished answer has no id and no question. Id and question are copied from the query, so that the client finds its own
mixed case (0x20). Compression pointers point into the question or behind it, so an answer fits questions of one length
only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .record_sets import Data, RecordSets, Soa, Srv
from .wire import (
    AA,
    AD,
    CD,
    FORMERR,
    HEADER_SIZE,
    HINFO,
    LARGEST,
    NOERROR,
    OPCODE,
    QR,
    RA,
    RD,
    TC,
    TYPES,
    Query,
    encode_name,
    packed,
    skip_record_untrusted,
)

_POINTER_TO_QUESTION = b"\xc0\x0c"
_ALIAS = _POINTER_TO_QUESTION + TYPES["CNAME"].to_bytes(2, "big")
_LARGEST_POINTER = 0x3FFF


class Answer(NamedTuple):
    """A finished answer to every question with one key: reply = id + head + question + body.

    `head` has the flags, for a query with RD, and the counts. `stride` is the size in bytes of one record, if the body
    consists of address records, which rotate; otherwise 0.
    """

    head: bytes
    body: bytes
    stride: int


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


def is_alias(answer: Answer) -> bool:
    """Whether the answer begins with a CNAME record at the name of the question."""
    return answer.body.startswith(_ALIAS)


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


def opt_record(size: int, extended_rcode: int = 0, *, do: bool = False, options: bytes = b"") -> bytes:
    """Return this server's OPT record of version 0: `size` is the largest UDP message it accepts."""
    front = b"\0\0\x29" + size.to_bytes(2, "big") + bytes((extended_rcode, 0, 0x80 if do else 0, 0))
    return front + len(options).to_bytes(2, "big") + options


def assemble(
    query: Query,
    answer: Answer,
    limit: int,
    our_size: int,
    turn: int = 0,
    *,
    options: bytes = b"",
    extended_rcode: int = 0,
) -> bytes:
    """Return a reply of at most `limit` bytes. TC is set if answer or authority records are left out.

    Address records rotate: the reply begins with number `turn`, modulo their number. `options` and `extended_rcode` are
    for the OPT record, which the reply to a query with EDNS has.
    """
    front, body, stride = answer
    if stride > 0:
        offset = turn % (len(body) // stride) * stride
        body = body[offset:] + body[:offset]
    tail = b""
    if query.edns is not None:
        tail = opt_record(our_size, extended_rcode, do=query.edns.do, options=options)
    room = limit - HEADER_SIZE - len(query.question) - len(tail)
    if room < 0 and options:  # an upstream may have sent more of them by TCP than fit here
        return assemble(query, answer, limit, our_size, turn, extended_rcode=extended_rcode)
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


def without_rest(answer: Answer) -> Answer:
    """Return a positive answer without its authority and additional records; other answers as they are."""
    count, others = int.from_bytes(answer.head[4:6], "big"), answer.head[6:]
    if not count or not any(others) or answer.head[1] & 15 != NOERROR:
        return answer
    at = 0
    for _ in range(count):
        length_at = skip_record_untrusted(answer.body, at)[3]
        at = length_at + 2 + int.from_bytes(answer.body[length_at : length_at + 2], "big")
    return answer._replace(head=answer.head[:6] + bytes(4), body=answer.body[:at])


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
    return assemble(query, answer, LARGEST, our_size, extended_rcode=rcode >> 4)


def format_error_untrusted(data: bytes) -> bytes | None:
    """Return FORMERR, without a question, for a malformed query; None for what is no query."""
    if len(data) < HEADER_SIZE or data[2] & QR:
        return None
    return data[:2] + bytes((QR | data[2] & (OPCODE | RD), FORMERR)) + bytes(8)

"""Replies of upstreams as bytes: checked, parsed, and made into answers to clients.

Pure: no I/O, no clock, no randomness.

Functions whose names end in `_untrusted` take bytes from the network and raise only BadPacket. Compression pointers are
followed backwards only, so that they cannot loop.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import NamedTuple

from bridgehead.dns.errors import BadPacket

from .replies import Answer, Writer, head
from .wire import AD, CD, FORMERR, HEADER_SIZE, NOTIMP, OPT, QR, RD, TYPES, skip_name_untrusted, skip_record_untrusted


class RecordAt(NamedTuple):
    """A record in a message: its section, type and TTL, and the offsets of the owner, the TTL, the data and the end."""

    section: int  # 0 answer, 1 authority, 2 additional
    type: int
    ttl: int
    start: int
    ttl_at: int
    data_at: int
    end: int


def each_record_untrusted(message: bytes, at: int, counts: Iterable[int]) -> Iterator[RecordAt]:
    """Yield the records from offset `at` on; `counts` are the numbers of records in the sections. Raises BadPacket."""
    for section, count in enumerate(counts):
        for _ in range(count):
            _, kind, _, length_at = skip_record_untrusted(message, at)
            ttl_at, data_at = length_at - 4, length_at + 2
            end = data_at + int.from_bytes(message[length_at:data_at], "big")
            yield RecordAt(section, kind, int.from_bytes(message[ttl_at:length_at], "big"), at, ttl_at, data_at, end)
            at = end


def section_counts(front: bytes) -> list[int]:
    """Return the numbers of records in the three sections, from an answer's head."""
    return [int.from_bytes(front[offset : offset + 2], "big") for offset in (4, 6, 8)]


def parse_reply_untrusted(data: bytes, question: bytes) -> list[RecordAt]:
    """Return the records of a reply to exactly this question. Raises BadPacket for any other message."""
    if is_bare_refusal(data):
        return []
    if len(data) < HEADER_SIZE + len(question) or not data[2] & QR or data[4:6] != b"\0\1":
        raise BadPacket("not a reply to one question")
    if data[HEADER_SIZE : HEADER_SIZE + len(question)].lower() != question.lower():
        raise BadPacket("a reply to another question")
    return list(each_record_untrusted(data, HEADER_SIZE + len(question), section_counts(data[2:12])))


def read_name_untrusted(data: bytes, at: int) -> bytes:
    """Return the lower-case, uncompressed wire form of the name at offset `at`. Raises BadPacket."""
    labels = []
    limit = at
    size = 1
    try:
        while length := data[at]:
            if length >= 0xC0:
                target = (length & 0x3F) << 8 | data[at + 1]
                if target >= limit:
                    raise BadPacket("a pointer that does not point backwards")
                at = limit = target
                continue
            size += 1 + length
            if length > 63 or size > 255 or at + 1 + length > len(data):
                raise BadPacket("a name that is too long or ends in the middle")
            labels.append(data[at : at + 1 + length])
            at += 1 + length
    except IndexError:
        raise BadPacket("a name ends in the middle") from None
    return b"".join(labels).lower() + b"\0"


class UpstreamAnswer(NamedTuple):
    """An upstream's answer, the offsets of TTLs in its body, and how many seconds it may be cached.

    `options` and `extended_rcode` are those of the reply's OPT record; None: it had no OPT record. `addresses` are the
    offsets in the body of the data of address records, if there are several of one type.
    """

    answer: Answer
    ttl_offsets: tuple[int, ...]
    ttl: int
    options: bytes | None = None
    extended_rcode: int = 0
    addresses: tuple[int, ...] = ()

    @property
    def rcode(self) -> int:
        return self.extended_rcode << 4 | self.answer.head[1] & 15

    @property
    def is_negative(self) -> bool:
        return self.answer.head[4:6] == b"\0\0"


def is_bare_refusal(data: bytes) -> bool:
    """Whether this is a header with FORMERR or NOTIMP and without the question, as old servers refuse EDNS."""
    return len(data) == HEADER_SIZE and bool(data[2] & QR) and not any(data[4:]) and data[3] & 15 in (FORMERR, NOTIMP)


def adopt_reply_untrusted(data: bytes, question: bytes) -> UpstreamAnswer:
    """Return the reply to `question` without its OPT record, for any client with this question. Raises BadPacket.

    Records behind the OPT record are dropped, too. Pointers point backwards only, so the rest stays valid.
    """
    base = HEADER_SIZE + len(question)
    counts = [0, 0, 0]
    offsets = []
    ttls = []
    end = base
    options, extended_rcode = None, 0
    addresses: dict[int, list[int]] = {}  # by size
    for record in parse_reply_untrusted(data, question):
        if record.section == 2 and record.type == OPT:
            options, extended_rcode = data[record.data_at : record.end], data[record.ttl_at]
            break
        counts[record.section] += 1
        end = record.end
        offsets.append(record.ttl_at - base)
        if record.section == 0 and record.end - record.data_at == _ADDRESS_SIZES.get(record.type):
            addresses.setdefault(record.end - record.data_at, []).append(record.data_at - base)
        ttl = record.ttl
        if record.section == 1 and record.type == TYPES["SOA"]:  # RFC 2308: the TTL of a negative answer
            ttl = min(ttl, int.from_bytes(data[record.end - 4 : record.end], "big"))
        if record.section < 2:
            ttls.append(_valid_ttl(ttl))
    front = head(data[3] & 15, *counts, aa=False, ad=bool(data[3] & AD))
    answer = Answer(front, data[base:end], 0)
    several = tuple(*addresses.values()) if len(addresses) == 1 else ()
    return UpstreamAnswer(
        answer, tuple(offsets), min(ttls, default=0), options, extended_rcode, several if len(several) > 1 else ()
    )


def _valid_ttl(ttl: int) -> int:
    """Return 0 for a TTL with the most significant bit (RFC 2181, section 8)."""
    return 0 if ttl >= 1 << 31 else ttl


def with_ttls(found: UpstreamAnswer, limit: Callable[[int], int]) -> UpstreamAnswer:
    """Return the answer with `limit` of each TTL.

    Records of a negative answer get at most the time for which it may be cached: clients see that in the SOA record.
    """
    body = bytearray(found.answer.body)
    for at in found.ttl_offsets:
        ttl = _valid_ttl(int.from_bytes(body[at : at + 4], "big"))
        body[at : at + 4] = limit(min(ttl, found.ttl) if found.is_negative else ttl).to_bytes(4, "big")
    return found._replace(answer=found.answer._replace(body=bytes(body)), ttl=limit(found.ttl))


def aged(found: UpstreamAnswer, seconds: int, turn: int = 0) -> Answer:
    """Return the answer with its TTLs reduced by `seconds`, beginning with address number `turn`, modulo their number.

    Addresses change places, not records: names may be pointers to earlier records.
    """
    body = bytearray(found.answer.body)
    for number, at in enumerate(found.addresses):
        size = _ADDRESS_SIZES[int.from_bytes(body[at - 10 : at - 8], "big")]
        source = found.addresses[(number + turn) % len(found.addresses)]
        body[at : at + size] = found.answer.body[source : source + size]
    for at in found.ttl_offsets:
        ttl = int.from_bytes(body[at : at + 4], "big")
        body[at : at + 4] = max(0, ttl - seconds).to_bytes(4, "big")
    return found.answer._replace(body=bytes(body))


class PlainRecord(NamedTuple):
    """A record without compression, so that it fits into any message. `data` of a CNAME is its target in wire form."""

    owner: bytes
    type: int
    ttl: int
    data: bytes


_DNAME, _NAPTR = 39, 35
_ADDRESS_SIZES = {TYPES["A"]: 4, TYPES["AAAA"]: 16}
# The offset of the name in a record's data.
_NAME_AT = {
    TYPES["NS"]: 0, TYPES["CNAME"]: 0, TYPES["PTR"]: 0, TYPES["SOA"]: 0, _DNAME: 0, TYPES["MX"]: 2, TYPES["SRV"]: 6
}  # fmt: skip


def _name_offset_untrusted(message: bytes, kind: int, at: int, end: int) -> int | None:
    """Return the offset of the name in a record's data from `at` to `end`; of a SOA's first; None: it has none."""
    if kind == _NAPTR:
        at += 4
        for _ in range(3):  # flags, services, regular expression
            at += 1 + message[at] if at < end else 0
        if at >= end:
            raise BadPacket("a NAPTR record ends in the middle")
        return at
    before = _NAME_AT.get(kind)
    return None if before is None else at + before


def plain_data_untrusted(message: bytes, kind: int, at: int, end: int) -> bytes:
    """Return a record's data without compression. Raises BadPacket."""
    name_at = _name_offset_untrusted(message, kind, at, end)
    if name_at is None:
        return message[at:end]
    if kind == TYPES["SOA"]:
        second = skip_name_untrusted(message, at)
        numbers = message[skip_name_untrusted(message, second) : end]
        return read_name_untrusted(message, at) + read_name_untrusted(message, second) + numbers
    return message[at:name_at] + read_name_untrusted(message, name_at)


def map_value_name_untrusted(kind: int, data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Return plain data with its name, or a SOA's first, replaced by `change(name)`. Raises BadPacket.

    The types are those of CoreDNS' `rewrite`: CNAME, DNAME, MX, NAPTR (the replacement), NS, PTR, SOA and SRV. Data of
    other types are returned as they are.
    """
    at = _name_offset_untrusted(data, kind, 0, len(data))
    if at is None:
        return data
    end = skip_name_untrusted(data, at)
    return data[:at] + change(data[at:end]) + data[end:]


def plain_records_untrusted(
    answer: Answer, question: bytes, *, sections: Container[int] = (0,), types: Container[int] | None = None
) -> list[PlainRecord]:
    """Return the records in these sections of an answer, only of these `types` if given. Raises BadPacket."""
    message = bytes(HEADER_SIZE) + question + answer.body
    counts = section_counts(answer.head)
    return [
        PlainRecord(
            read_name_untrusted(message, record.start),
            record.type,
            record.ttl,
            plain_data_untrusted(message, record.type, record.data_at, record.end),
        )
        for record in each_record_untrusted(message, HEADER_SIZE + len(question), counts)
        if record.section in sections and (types is None or record.type in types)
    ]


def plain_soa_untrusted(answer: Answer, question: bytes) -> list[PlainRecord]:
    """Return the SOA records in an answer's authority section. Raises BadPacket."""
    return plain_records_untrusted(answer, question, sections=(1,), types=(TYPES["SOA"],))


def compile_chain(
    name: bytes, records: Iterable[PlainRecord], rcode: int, *, ra: bool, authority: Iterable[PlainRecord] = ()
) -> Answer:
    """Return an authoritative answer: an alias of the zone, followed by the records of its target.

    `authority` is the SOA record behind an alias whose target has no records.
    """
    writer = Writer(name)
    counts = [0, 0]
    for section, several in enumerate((records, authority)):
        for record in several:
            writer.add_plain(*record)
            counts[section] += 1
    return Answer(head(rcode, *counts, ra=ra), bytes(writer.body), 0)


def forwarded_query(id_: bytes, question: bytes, *, rd: bool, cd: bool, opt: bytes) -> bytes:
    """Return a query to an upstream, with AD to learn whether the answer is authentic. `opt`: an OPT record, or b""."""
    flags = bytes((RD if rd else 0, AD | (CD if cd else 0)))
    return id_ + flags + b"\0\1\0\0\0\0\0" + (b"\1" if opt else b"\0") + question + opt

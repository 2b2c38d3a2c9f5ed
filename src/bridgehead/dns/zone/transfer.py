"""Zone transfers: AXFR (RFC 5936), and IXFR answered in the same way (RFC 1995, section 4).

Pure: no I/O, no clock, no randomness.

`serving/server.py` sends the messages one by one. A transfer shows the zone at the time of the query: the table is
copied, and finished answers are replaced, never changed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from bridgehead.dns.config import Network
from bridgehead.dns.messages import replies, wire
from bridgehead.dns.messages.upstream_replies import PlainRecord, plain_records_untrusted
from bridgehead.dns.messages.wire import Query

from .finished_answers import Zone

MESSAGE_BYTES = 16_000  # within reach of compression pointers; made in a few milliseconds


def is_allowed(client: str, networks: tuple[Network, ...]) -> bool:
    """Whether the client's address is in one of the networks."""
    address = ipaddress.ip_address(client.partition("%")[0])
    return any(address in network for network in networks)


def transfer(zone: Zone, query: Query) -> Iterator[bytes]:
    """Return the messages: SOA, all other records of the zone, SOA. The table is copied before the first."""
    return _transfer(dict(zone.table), zone.wire_domain, query)


def _transfer(table: dict[bytes, replies.Answer], domain: bytes, query: Query) -> Iterator[bytes]:
    soa_key = wire.question_key(domain, wire.TYPES["SOA"])
    soa = plain_records_untrusted(table[soa_key], soa_key)
    writer, count = replies.Writer(query.name), 0
    for record in _in_order(table, domain, soa_key, soa):
        writer.add_plain(*record)
        count += 1
        if len(writer.body) >= MESSAGE_BYTES:
            yield _message(query, bytes(writer.body), count)
            writer, count = replies.Writer(query.name), 0
    if count:
        yield _message(query, bytes(writer.body), count)


def _in_order(
    table: dict[bytes, replies.Answer], domain: bytes, soa_key: bytes, soa: list[PlainRecord]
) -> Iterator[PlainRecord]:
    yield from soa
    for key, answer in table.items():
        if answer.stride >= 0 and key != soa_key and key[:-4].endswith(domain):
            yield from plain_records_untrusted(answer, key)
    yield from soa


def _message(query: Query, body: bytes, count: int) -> bytes:
    flags = bytes((wire.QR | wire.AA | query.flags & wire.RD, 0))
    return query.id + flags + b"\0\1" + count.to_bytes(2, "big") + bytes(4) + query.question + body

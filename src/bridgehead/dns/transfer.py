"""The whole zone over one TCP connection: AXFR (RFC 5936), and IXFR answered in the same way (RFC 1995, section 4).

Pure. `server.py` sends what it gets from here, message by message. A transfer shows the zone as it was when it was
asked for: finished answers do not change, they are replaced.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from . import wire
from .foreign import PlainRecord, plain_records_untrusted
from .wire import Query
from .zone import Zone

MESSAGE_BYTES = 16_000  # all of it can be pointed to, and making it takes some milliseconds

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def is_allowed(client: str, networks: tuple[Network, ...]) -> bool:
    address = ipaddress.ip_address(client.partition("%")[0])
    return any(address in network for network in networks)


def transfer(zone: Zone, query: Query) -> Iterator[bytes]:
    """The messages: SOA, everything else below the zone's name, SOA. The zone's table is copied at once."""
    return _transfer(dict(zone.table), zone.wire_domain, query)


def _transfer(table: dict[bytes, wire.Answer], domain: bytes, query: Query) -> Iterator[bytes]:
    soa_key = wire.question_key(domain, wire.TYPES["SOA"])
    soa = plain_records_untrusted(table[soa_key], soa_key)
    writer, count = wire.Writer(query.name), 0
    for record in _in_order(table, domain, soa_key, soa):
        writer.add_plain(*record)
        count += 1
        if len(writer.body) >= MESSAGE_BYTES:
            yield _message(query, bytes(writer.body), count)
            writer, count = wire.Writer(query.name), 0
    if count:
        yield _message(query, bytes(writer.body), count)


def _in_order(
    table: dict[bytes, wire.Answer], domain: bytes, soa_key: bytes, soa: list[PlainRecord]
) -> Iterator[PlainRecord]:
    yield from soa
    for key, answer in table.items():
        if answer.stride >= 0 and key != soa_key and key[:-4].endswith(domain):
            yield from plain_records_untrusted(answer, key)
    yield from soa


def _message(query: Query, body: bytes, count: int) -> bytes:
    flags = bytes((wire.QR | wire.AA | query.flags & wire.RD, 0))
    return query.id + flags + b"\0\1" + count.to_bytes(2, "big") + bytes(4) + query.question + body

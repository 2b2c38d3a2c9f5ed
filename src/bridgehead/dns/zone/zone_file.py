"""The zone as a zone file (RFC 1035, section 5), for `bridgehead dns --dump` and tests.

Pure: no I/O, no clock, no randomness.

The records are decoded from the finished answers, so the file shows what clients get.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

from bridgehead.dns.messages import replies, upstream_replies, wire
from bridgehead.dns.messages.domain_names import is_within

from .finished_answers import Zone


def zone_file(zone: Zone) -> str:
    """Return the file: sorted by name, the SOA first, and last the PTR records, which belong to other zones."""
    lines = sorted(record_lines(zone), key=lambda line: _order(line, zone.settings.domain))
    return f"$ORIGIN {zone.settings.domain}.\n" + "".join(f"{line}\n" for line in lines)


def record_lines(zone: Zone) -> Iterator[str]:
    """Yield every record as "name. ttl IN TYPE data", in no order."""
    for key, answer in zone.table.items():
        if answer.stride >= 0:
            yield from answer_lines(key, answer)


def answer_lines(question: bytes, answer: replies.Answer) -> Iterable[str]:
    """Yield the records in the answer section."""
    message = bytes(wire.HEADER_SIZE) + question + answer.body
    counts = upstream_replies.section_counts(answer.head)[:1]
    for record in upstream_replies.each_record_untrusted(message, wire.HEADER_SIZE + len(question), counts):
        owner = _name(message, record.start)
        kind = wire.TYPE_NAMES.get(record.type, f"TYPE{record.type}")
        yield f"{owner} {record.ttl} IN {kind} {_data(message, record, kind)}"


def _data(message: bytes, record: upstream_replies.RecordAt, kind: str) -> str:
    at = record.data_at
    data = message[at : record.end]
    match kind:
        case "A" | "AAAA":
            return str(ipaddress.ip_address(data))
        case "SRV":
            numbers = (int.from_bytes(data[offset : offset + 2], "big") for offset in (0, 2, 4))
            return f"{' '.join(map(str, numbers))} {_name(message, at + 6)}"
        case "TXT":
            return '"' + data[1:].decode("latin-1") + '"'
        case "SOA":
            after = record.end - 20
            numbers = (int.from_bytes(message[offset : offset + 4], "big") for offset in range(after, record.end, 4))
            rname_at = wire.skip_name_untrusted(message, at)
            return f"{_name(message, at)} {_name(message, rname_at)} {' '.join(map(str, numbers))}"
        case _:
            return _name(message, at)


def _name(message: bytes, at: int) -> str:
    return wire.decode_name(upstream_replies.read_name_untrusted(message, at)) + "."


def _order(line: str, domain: str) -> tuple[bool, list[str], bool, str]:
    name = line.partition(" ")[0].rstrip(".")
    return not is_within(name, domain), name.split(".")[::-1], " IN SOA " not in line, line

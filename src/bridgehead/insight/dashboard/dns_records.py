"""The DNS names of a Service and the records that answer for them, by the Kubernetes DNS specification.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import msgspec

from bridgehead.dns.zone.specification import extra_records, service_records
from bridgehead.insight.facts.cluster_state import ClusterState
from bridgehead.insight.findings import printable
from bridgehead.insight.trace.name_resolution import DnsAnswer
from bridgehead.objects.core import Service

MOST_NAMES = 20
MOST_RECORDS = 20


class NameAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The records of a name as `A 10.96.0.10`; without any, `rcode` names the reason. `note`: records left out.

    `answered`: the answer of the cluster's DNS; "" if it was not asked. `is_different`: not these records.
    """

    name: str
    records: tuple[str, ...] = ()
    rcode: str = ""
    note: str = ""
    answered: str = ""
    is_different: bool = False


def records_of(service: Service, state: ClusterState) -> tuple[NameAnswer, ...]:
    """Return the names of a Service, its own first, with their records."""
    slices = state.slices_of(service.key)
    names = {**service_records(service, slices, state.domain).names, **extra_records(service, slices, state.domain)}
    own = f"{service.metadata.name}.{service.metadata.namespace}.svc.{state.domain}"
    found = [_answer(own, names.pop(own, {}))]
    found += [_answer(name, sets) for name, sets in list(names.items())[: MOST_NAMES - 1]]
    return tuple(found)


def with_answer(expected: NameAnswer, answer: DnsAnswer) -> NameAnswer:
    """Return the records of a name beside the answer of a DNS server, which are compared by their addresses."""
    wanted = {text.partition(" ")[2] for text in expected.records if text.startswith(("A ", "AAAA "))}
    text = ", ".join((*answer.addresses, *answer.aliases)[:MOST_RECORDS]) or answer.rcode
    took = "" if answer.milliseconds is None else f" ({answer.milliseconds:.1f} ms)"
    is_whole = not expected.note
    return msgspec.structs.replace(
        expected,
        answered=printable(f"{text}{took}"),
        is_different=is_whole and not answer.aliases and set(answer.addresses) != wanted,
    )


def _answer(name: str, sets: object) -> NameAnswer:
    records: list[str] = []
    if isinstance(sets, dict) or hasattr(sets, "items"):
        for kind, data in sets.items():
            records += [f"{kind} {printable(_text(each), 300)}" for each in data]
    left = len(records) - MOST_RECORDS
    return NameAnswer(
        name=printable(name, 253),
        records=tuple(records[:MOST_RECORDS]),
        rcode="" if records else "NXDOMAIN",
        note=f"+{left}" if left > 0 else "",
    )


def _text(data: object) -> str:
    """Return the data of a record as dig prints it."""
    if isinstance(data, tuple):
        return " ".join(map(str, data))
    return str(data)

"""`hosts`: names with fixed addresses, as finished answers (source: CoreDNS' plugin).

Pure: no I/O, no clock, no randomness.

`responder.py` asks for names that are not in the zone. A name may have several addresses; addresses have PTR records
unless `no_reverse` is set; there are no wildcards.
"""

from __future__ import annotations

from collections.abc import Iterable

from bridgehead.dns.config import Hosts
from bridgehead.dns.messages import replies, wire
from bridgehead.dns.messages.names import reverse_name
from bridgehead.dns.messages.records import Data, address_sets


class HostTable:
    """The answers of all `hosts` directives. `ra`: the flag RA of replies."""

    def __init__(self, several: Iterable[Hosts], *, ra: bool) -> None:
        self._answers: dict[bytes, replies.Answer] = {}
        self._names: set[bytes] = set()
        self._nodata = replies.Answer(replies.head(wire.NOERROR, 0, ra=ra), b"", 0)
        for hosts in several:
            addresses: dict[str, list[str]] = {}
            names: dict[str, dict[Data, None]] = {}
            for address, its_names in hosts.entries:
                for name in its_names:
                    addresses.setdefault(name, []).append(address)
                    if hosts.has_reverse:
                        names.setdefault(reverse_name(address), {})[name] = None
            for name, its in addresses.items():
                self._add(name, address_sets(its), hosts.ttl, ra)
            for name, targets in names.items():
                self._add(name, {"PTR": tuple(targets)}, hosts.ttl, ra)

    def answer(self, query: wire.Query) -> replies.Answer | None:
        """Return the answer; None for an unknown name. A known name has no records of other types: NODATA."""
        found = self._answers.get(query.key)
        if found is None and query.name in self._names:
            return self._nodata
        return found

    def _add(self, name: str, sets: dict[str, tuple[Data, ...]], ttl: int, ra: bool) -> None:
        wire_name = wire.encode_name(name)
        if wire_name in self._names:
            return  # an earlier directive goes first
        self._names.add(wire_name)
        for kind in sets:
            key = wire.question_key(wire_name, wire.TYPES[kind])
            self._answers[key] = replies.compile_answer(wire_name, kind, sets, ttl, {}, ra=ra)

"""`hosts`: names with fixed addresses (source: CoreDNS' plugin).

Pure: no I/O, no clock, no randomness.

`responder.py` asks for names that are not in the zone. A name may have several addresses; addresses have PTR records
unless `no_reverse` is set; there are no wildcards. Answers are made on demand: few names of a list of 100,000 are asked
for, and the list is in use at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bridgehead.dns.config import Hosts
from bridgehead.dns.messages import replies, wire
from bridgehead.dns.messages.names import reverse_name
from bridgehead.dns.messages.records import RecordSets, address_sets

_MOST_ANSWERS = 1000  # that are kept


class _Owner(NamedTuple):
    """The addresses of a name or, at the name of an address, the names. `ttl` in seconds."""

    ttl: int
    addresses: list[str]
    names: list[str]

    def sets(self) -> RecordSets:
        return address_sets(self.addresses) if self.addresses else {"PTR": tuple(dict.fromkeys(self.names))}


class HostTable:
    """The answers of all `hosts` directives. `ra`: the flag RA of replies."""

    def __init__(self, several: Iterable[Hosts], *, ra: bool) -> None:
        self._owners: dict[str, _Owner] = {}
        self._answers: dict[bytes, replies.Answer] = {}
        self._ra = ra
        for hosts in several:
            owners: dict[str, _Owner] = {}
            by_address: dict[str, list[str]] = {}
            for address, names in hosts.entries:
                for name in names:
                    owners.setdefault(name, _Owner(hosts.ttl, [], [])).addresses.append(address)
                if hosts.has_reverse:
                    by_address.setdefault(address, []).extend(names)
            for address, names_of_address in by_address.items():
                owners.setdefault(reverse_name(address), _Owner(hosts.ttl, [], names_of_address))
            self._owners = owners | self._owners  # an earlier directive goes first

    def answer(self, query: wire.Query) -> replies.Answer | None:
        """Return the answer; None for an unknown name. A known name has no records of other types: NODATA."""
        answer = self._answers.get(query.key)
        if answer is not None:
            return answer
        owner = self._owners.get(wire.decode_name(query.name))
        if owner is None:
            return None
        if len(self._answers) >= _MOST_ANSWERS:
            self._answers.clear()
        answer = self._answers[query.key] = self._compile(query, owner)
        return answer

    def _compile(self, query: wire.Query, owner: _Owner) -> replies.Answer:
        sets, kind = owner.sets(), wire.TYPE_NAMES.get(query.type, "")
        if kind not in sets:
            return replies.Answer(replies.head(wire.NOERROR, 0, ra=self._ra), b"", 0)
        return replies.compile_answer(query.name, kind, sets, owner.ttl, {}, ra=self._ra)

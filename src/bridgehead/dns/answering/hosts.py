"""`hosts`: names with fixed addresses (source: CoreDNS' plugin).

Pure: no I/O, no clock, no randomness.

`responder.py` asks for names that are not in the zone. A name may have several addresses; addresses have PTR records
unless `no_reverse` is set. A wildcard, like *.example.com, stands for names with exactly one label in its place that
are not in the list themselves, and has no PTR records. Answers are made on demand: few names of a list of 100,000 are
asked for, and the list is in use at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bridgehead.dns.config import Hosts
from bridgehead.dns.messages import replies, wire
from bridgehead.dns.messages.domain_names import is_in_any, reverse_name
from bridgehead.dns.messages.record_sets import RecordSets, address_sets

_MOST_ANSWERS = 1000  # that are kept
_OWN_TYPES = tuple(wire.TYPES[kind] for kind in ("A", "AAAA", "PTR"))


class _Owner(NamedTuple):
    """The addresses of a name or, at the name of an address, the names. `ttl` in seconds."""

    ttl: int
    passes_types: tuple[str, ...]
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
                    owners.setdefault(name, _Owner(hosts.ttl, hosts.passes_types, [], [])).addresses.append(address)
                if hosts.has_reverse:
                    by_address.setdefault(address, []).extend(name for name in names if not _is_wildcard(name))
            for address, names_of_address in by_address.items():
                if names_of_address:
                    owners.setdefault(reverse_name(address), _Owner(hosts.ttl, (), [], names_of_address))
            self._owners = owners | self._owners  # an earlier directive goes first

    def answer(self, query: wire.Query) -> replies.Answer | None:
        """Return the answer; None for an unknown name, or a type that is passed on.

        Other types than its own are NODATA at a known name, also with `fallthrough`.
        """
        answer = self._answers.get(query.key)
        if answer is not None:
            return answer
        name = wire.decode_name(query.name)
        owner = self._owners.get(name) or self._owners.get(f"*.{name.partition('.')[2]}".rstrip("."))
        if owner is None or (query.type not in _OWN_TYPES and is_in_any(name, owner.passes_types)):
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


def _is_wildcard(name: str) -> bool:
    return name == "*" or name.startswith("*.")

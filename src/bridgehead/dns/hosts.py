"""Names from hosts files and from the lines of a `hosts` directive, as finished answers. Pure.

`corefile.py` reads them, `responder.py` asks for what the cluster does not answer. As CoreDNS' plugin of that name: one
name may have several addresses, addresses have PTR records unless that is unwanted, wildcards there are none.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from . import wire
from .records import Data, address_sets, as_domain, is_name, reverse_name

Entry = tuple[str, tuple[str, ...]]  # an address and its names, lower-case without the last dot


@dataclass(frozen=True)
class Hosts:
    """`ttl` in seconds."""

    entries: tuple[Entry, ...] = ()
    ttl: int = 3600
    has_reverse: bool = True


def parse_hosts(text: str) -> tuple[Entry, ...]:
    """hosts(5). Lines that say nothing sound are passed over, as everywhere."""
    found = (parse_entry(line.partition("#")[0].split()) for line in text.splitlines())
    return tuple(entry for entry in found if entry is not None)


def parse_entry(words: list[str]) -> Entry | None:
    """An address and at least one name; None for anything else. What is no name is left out."""
    if not words:
        return None
    try:
        address = ipaddress.ip_address(words[0])
    except ValueError:
        return None
    names = tuple(name for name in map(as_domain, words[1:]) if is_name(name))
    if not names or getattr(address, "scope_id", None):
        return None
    return str(address), names


class HostTable:
    """The answers of all entries. `ra`: what replies say of recursion."""

    def __init__(self, several: Iterable[Hosts], *, ra: bool) -> None:
        self._answers: dict[bytes, wire.Answer] = {}
        self._names: set[bytes] = set()
        self._nothing = wire.Answer(wire.head(wire.NOERROR, 0, ra=ra), b"", 0)
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

    def answer(self, query: wire.Query) -> wire.Answer | None:
        """None for a name that is not there. A name that is there has no other records than these."""
        found = self._answers.get(query.key)
        if found is None and query.name in self._names:
            return self._nothing
        return found

    def _add(self, name: str, sets: dict[str, tuple[Data, ...]], ttl: int, ra: bool) -> None:
        wire_name = wire.encode_name(name)
        if wire_name in self._names:
            return  # an earlier directive has it
        self._names.add(wire_name)
        for kind in sets:
            key = wire.question_key(wire_name, wire.TYPES[kind])
            self._answers[key] = wire.compile_answer(wire_name, kind, sets, ttl, {}, ra=ra)

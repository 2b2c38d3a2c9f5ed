"""Where packets can go by the ruleset of a FakeKernel: follows the rules that `proxy/nftables/chains.py` writes.

What is left to chance, and what a client did before, is followed in every direction, so an answer is a set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from ipaddress import ip_address, ip_network

from .fake_nft import FakeKernel

REFUSED, DROPPED, UNTOUCHED = "refused", "dropped", "untouched"


@dataclass(frozen=True)
class Packet:
    """The first of a connection. `remembered`: the backends' numbers that its client may have from earlier ones."""

    address: str
    protocol: str
    port: int
    source: str
    is_from_node: bool = False
    is_to_node: bool = False
    remembered: frozenset[str] = frozenset()
    # What rules write.
    destination: str = ""
    number: str = ""
    marks: frozenset[int] = frozenset()

    @property
    def ip(self) -> str:
        return "ip6" if ":" in self.address else "ip"


def ways(kernel: FakeKernel, packet: Packet) -> frozenset[str]:
    """Each is one of the constants above, or "ADDRESS . PORT", with " masqueraded" behind it if it is."""
    found = set()
    for end, after in _Ruleset(kernel, packet.ip).chain("services", packet):
        if 0x8000 in after.marks:
            found.add(REFUSED)
        elif end in ("", UNTOUCHED):
            found.add(UNTOUCHED)
        else:
            found.add(end + (" masqueraded" if 0x4000 in after.marks else ""))
    return frozenset(found)


def remembered(kernel: FakeKernel, packet: Packet) -> frozenset[str]:
    """The numbers that clients of this Frontend can have got."""
    choices = kernel.tables[packet.ip].elements.get("affinity-choices", {})
    prefix = f"{packet.address} . {packet.protocol} . {packet.port} . "
    return frozenset(value for key, value in choices.items() if key.startswith(prefix))


Way = tuple[str, Packet]  # where it ends ("": it goes on behind the chain), and what became of the packet


@lru_cache(maxsize=4096)
def _parse(ip: str, rule: str) -> tuple[str, str, tuple[str | None, ...]]:
    """The first part of a rule: its method of _Ruleset, the parts behind it, and what is in it."""
    for pattern, method in _PARTS:
        match = re.match(pattern.replace("IP", ip), rule)
        if match is not None:
            return method, rule[match.end() :].strip(), match.groups()
    raise ValueError(f"unknown rule: {rule}")


@lru_cache(maxsize=4096)
def _is_in(address: str, ranges: str) -> bool:
    return any(ip_address(address) in ip_network(text) for text in ranges.split(", "))


class _Ruleset:
    def __init__(self, kernel: FakeKernel, ip: str) -> None:
        self._elements = kernel.tables[ip].elements
        self._rules = kernel.rules[ip]
        self._ip = ip

    def chain(self, name: str, packet: Packet) -> Iterator[Way]:
        yield from self._run(self._rules[name], packet)

    def _run(self, rules: list[str], packet: Packet) -> Iterator[Way]:
        if not rules:
            yield "", packet
            return
        for end, after in self._rule(rules[0], packet):
            if end:
                yield end, after
            else:
                yield from self._run(rules[1:], after)

    def _rule(self, rule: str, packet: Packet) -> Iterator[Way]:
        """What one rule makes of a packet; unchanged and without an end where it does not match."""
        method, rest, groups = _parse(self._ip, rule)
        yield from getattr(self, method)(packet, rest, *groups)

    def _on(self, packet: Packet, rest: str) -> Iterator[Way]:
        if rest:
            yield from self._rule(rest, packet)
        else:
            yield "", packet

    def _if(self, matches: bool, packet: Packet, rest: str) -> Iterator[Way]:
        if matches:
            yield from self._on(packet, rest)
        else:
            yield "", packet

    def _source(self, packet: Packet, rest: str, negation: str, ranges: str) -> Iterator[Way]:
        yield from self._if(_is_in(packet.source, ranges) != bool(negation), packet, rest)

    def _from_node(self, packet: Packet, rest: str) -> Iterator[Way]:
        yield from self._if(packet.is_from_node, packet, rest)

    def _to_node(self, packet: Packet, rest: str) -> Iterator[Way]:
        yield from self._if(packet.is_to_node, packet, rest)

    def _in_set(self, packet: Packet, rest: str, name: str) -> Iterator[Way]:
        yield from self._if(packet.address in self._elements[name], packet, rest)

    def _verdicts(self, packet: Packet, rest: str, address: str | None, name: str) -> Iterator[Way]:
        words = (packet.address, packet.protocol, str(packet.port))[not address :]
        verdict = self._elements[name].get(" . ".join(words))
        yield from self._on(packet, verdict or "")

    def _turns(self, packet: Packet, rest: str, turns: str) -> Iterator[Way]:
        for verdict in sorted({turn.partition(" : ")[2] for turn in turns.split(", ")}):
            yield from self._on(packet, verdict)

    def _numbers(self, count: str, offset: str | None) -> Iterator[int]:
        yield from range(int(offset or 0), int(offset or 0) + int(count))

    def _translate(
        self, packet: Packet, rest: str, address: str | None, count: str, offset: str | None, name: str
    ) -> Iterator[Way]:
        prefix = f"{packet.address} . {packet.port}" if address else str(packet.port)
        for number in self._numbers(count, offset):
            yield self._elements[name].get(f"{prefix} . {number}", ""), packet

    def _translate_by_priority(self, packet: Packet, rest: str, address: str | None, name: str) -> Iterator[Way]:
        prefix = f"{packet.address} . {packet.port}" if address else str(packet.port)
        yield self._elements[name].get(f"{prefix} . {packet.number}", ""), packet

    def _name(self, packet: Packet, rest: str, address: str | None, name: str) -> Iterator[Way]:
        words = (packet.address, packet.protocol, str(packet.port))[not address :]
        found = self._elements[name].get(" . ".join(words), "")
        yield "", replace(packet, destination=found or packet.destination)

    def _recall(self, packet: Packet, rest: str) -> Iterator[Way]:
        yield "", packet  # a client that is not known
        for number in packet.remembered:
            yield from self._on(replace(packet, number=number), rest)

    def _choose(
        self, packet: Packet, rest: str, address: str | None, count: str, offset: str | None, name: str
    ) -> Iterator[Way]:
        words = (packet.address, packet.protocol, str(packet.port))[not address :]
        for number in self._numbers(count, offset):
            found = self._elements[name].get(" . ".join((*words, str(number))))
            yield "", packet if found is None else replace(packet, number=found)

    def _second_list(self, packet: Packet, rest: str) -> Iterator[Way]:
        high, low = (int(word, 16) for word in (packet.number or "0:0").split(":"))
        yield from self._on(replace(packet, number=f"{high:x}:{low | 0x10:x}"), rest)

    def _mark(self, packet: Packet, rest: str, mark: str) -> Iterator[Way]:
        yield from self._on(replace(packet, marks=packet.marks | {int(mark, 16)}), rest)

    def _note(self, packet: Packet, rest: str) -> Iterator[Way]:
        yield from self._on(packet, rest)

    def _jump(self, packet: Packet, rest: str, name: str) -> Iterator[Way]:
        yield from self.chain(name, packet)

    def _goto(self, packet: Packet, rest: str, name: str) -> Iterator[Way]:
        for end, after in self.chain(name, packet):
            yield end or UNTOUCHED, after

    def _drop(self, packet: Packet, rest: str) -> Iterator[Way]:
        yield DROPPED, packet


_CLIENT = r"(?:ip saddr \. ip daddr|jhash .* seed 0x1 \. jhash .* seed 0x2)"
_KEY = r"((?:ct original )?IP daddr \. |ct original IP daddr \. )?"
_PARTS = (
    (_KEY + r"meta l4proto \. th dport vmap @(\S+)", "_verdicts"),
    (r"IP daddr @(\S+)", "_in_set"),
    (r"fib daddr type local IP daddr != \S+", "_to_node"),
    (r"fib saddr type local", "_from_node"),
    (r"IP saddr (!= )?\{ ([^}]*) \}", "_source"),
    (r"numgen inc mod \d+ vmap \{ ([^}]*) \}", "_turns"),
    (r"dnat to " + _KEY + r"\S+ dport \. numgen \S+ mod (\d+)(?: offset (\d+))? map @(\S+)", "_translate"),
    (r"dnat to " + _KEY + r"\S+ dport \. meta priority map @(\S+)", "_translate_by_priority"),
    (r"IP daddr set " + _KEY + r"meta l4proto \. th dport map @(\S+)", "_name"),
    (rf"meta priority set {_CLIENT} map @affinity", "_recall"),
    (
        r"meta priority set " + _KEY + r"meta l4proto \. th dport \. numgen \S+ mod (\d+)(?: offset (\d+))? map @(\S+)",
        "_choose",
    ),
    (r"meta priority set meta priority or 0x10", "_second_list"),
    (r"meta mark set meta mark or (\S+)", "_mark"),
    (r"(?:update|delete) @affinity \{[^}]*\}", "_note"),
    (r"jump (\S+)", "_jump"),
    (r"goto (\S+)", "_goto"),
    (r"drop", "_drop"),
)

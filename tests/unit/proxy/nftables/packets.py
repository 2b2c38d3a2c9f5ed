"""A walker through the ruleset of a FakeKernel: where the rules of `proxy/nftables/chains.py` can send a packet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from msgspec.structs import replace

from bridgehead.proxy.frontends import ANY_LOCAL
from tests.unit.proxy import packets
from tests.unit.proxy.nftables.fake_nft import FakeKernel
from tests.unit.proxy.packets import DROPPED, REJECTED, UNTOUCHED, is_in


class Packet(packets.Packet, frozen=True):
    """`remembered`: the backends' numbers that the kernel may have recorded for the client."""

    remembered: frozenset[str] = frozenset()
    # Values that rules write.
    destination: str = ""
    priority: str = "0:0"
    is_marked: bool = False  # for masquerading

    @property
    def ip(self) -> str:
        return "ip6" if ":" in self.address else "ip"

    def key(self, address: str) -> str:
        """Return the key of the Frontend in the maps; `address` is the expression for the address."""
        is_masked = address.endswith(tuple(f" and {any_local}" for any_local in ANY_LOCAL.values()))
        text = ANY_LOCAL[6 if self.ip == "ip6" else 4] if is_masked else self.address
        return f"{text} . {self.protocol} . {self.port}"


def outcomes(kernel: FakeKernel, packet: Packet) -> frozenset[str]:
    """Each is REJECTED, DROPPED, UNTOUCHED, or "ADDRESS . PORT", followed by " masqueraded" if it is masqueraded."""
    found = set()
    walker = _Walker(kernel, packet.ip)
    hook = "output" if packet.is_from_node else "prerouting"
    for end, after in walker.chain(f"nat-{hook}", packet):
        if end in ("", UNTOUCHED):
            found |= {end or UNTOUCHED for end, _ in walker.filter(hook, after)}
        else:
            found.add(end + " masqueraded" * (after.is_marked and end not in (REJECTED, DROPPED)))
    return frozenset(found)


def remembered(kernel: FakeKernel, packet: Packet) -> frozenset[str]:
    """The numbers that the kernel can record for clients of this Frontend."""
    choices = kernel.tables[packet.ip].elements.get("affinity-choices", {})
    prefix = f"{packet.address} . {packet.protocol} . {packet.port} . "
    return frozenset(value for key, value in choices.items() if key.startswith(prefix))


Step = tuple[str, Packet]  # the outcome ("": the next rule sees the packet), and the packet after it


@lru_cache(maxsize=4096)
def _parse(ip: str, rule: str) -> tuple[str, str, tuple[str, ...]]:
    """The first part of a rule: its method of _Walker, the parts behind it, and what is in it."""
    for pattern, method in _PARTS:
        match = re.match(pattern.replace("IP", ip) + r"(?: |$)", rule)
        if match is not None:
            return method, rule[match.end() :], match.groups()
    raise ValueError(f"unknown rule: {rule}")


class _Walker:
    def __init__(self, kernel: FakeKernel, ip: str) -> None:
        self._elements = kernel.tables[ip].elements
        self._rules = kernel.rules[ip]
        self._ip = ip

    def filter(self, hook: str, packet: Packet) -> Iterator[Step]:
        """Walk the filter chains. Packets of this node to itself come back on the loopback interface, past nat."""
        for end, after in self.chain(f"filter-{hook}", packet):
            if hook == "output" and packet.is_to_node and end in ("", UNTOUCHED):
                yield from self.chain("filter-prerouting", after)
            else:
                yield end, after

    def chain(self, name: str, packet: Packet) -> Iterator[Step]:
        yield from self._run(self._rules[name], packet)

    def _run(self, rules: list[str], packet: Packet) -> Iterator[Step]:
        if not rules:
            yield "", packet
            return
        for end, after in self._rule(rules[0], packet):
            if end:
                yield end, after
            else:
                yield from self._run(rules[1:], after)

    def _rule(self, rule: str, packet: Packet) -> Iterator[Step]:
        """Yield what one rule does to a packet; a packet that does not match is unchanged, without an outcome."""
        if not rule:
            yield "", packet
            return
        method, rest, groups = _parse(self._ip, rule)
        yield from getattr(self, method)(packet, rest, *groups)

    def _if(self, matches: bool, packet: Packet, rest: str) -> Iterator[Step]:
        yield from self._rule(rest if matches else "", packet)

    # Matches

    def _never(self, packet: Packet, rest: str) -> Iterator[Step]:
        yield "", packet

    def _always(self, packet: Packet, rest: str) -> Iterator[Step]:
        yield from self._rule(rest, packet)

    def _tcp(self, packet: Packet, rest: str) -> Iterator[Step]:
        yield from self._if(packet.protocol == "tcp", packet, rest)

    def _source(self, packet: Packet, rest: str, negation: str, ranges: str) -> Iterator[Step]:
        yield from self._if(is_in(packet.source, ranges) != bool(negation), packet, rest)

    def _from_node(self, packet: Packet, rest: str) -> Iterator[Step]:
        yield from self._if(packet.is_from_node, packet, rest)

    def _on_loopback(self, packet: Packet, rest: str) -> Iterator[Step]:
        yield from self._if(packet.is_from_node and packet.is_to_node, packet, rest)

    def _has_priority(self, packet: Packet, rest: str, priority: str) -> Iterator[Step]:
        yield from self._if(packet.priority == priority, packet, rest)

    def _to_node(self, packet: Packet, rest: str) -> Iterator[Step]:
        yield from self._if(packet.is_to_node, packet, rest)

    def _to_other(self, packet: Packet, rest: str, address: str) -> Iterator[Step]:
        yield from self._if(packet.address != address, packet, rest)

    def _in_set(self, packet: Packet, rest: str, name: str) -> Iterator[Step]:
        yield from self._if(packet.address in self._elements[name], packet, rest)

    # Verdicts

    def _service(self, packet: Packet, rest: str, address: str) -> Iterator[Step]:
        yield from self._rule(self._elements["services"].get(packet.key(address), ""), packet)

    def _translate(self, packet: Packet, rest: str, address: str) -> Iterator[Step]:
        yield self._elements["endpoints"].get(f"{packet.key(address)} . {packet.priority}", ""), packet

    def _jump(self, packet: Packet, rest: str, name: str) -> Iterator[Step]:
        yield from self.chain(name, packet)

    def _goto(self, packet: Packet, rest: str, name: str) -> Iterator[Step]:
        for end, after in self.chain(name, packet):
            yield end or UNTOUCHED, after

    def _drop(self, packet: Packet, rest: str) -> Iterator[Step]:
        yield DROPPED, packet

    def _accept(self, packet: Packet, rest: str) -> Iterator[Step]:
        yield UNTOUCHED, packet

    def _reject(self, packet: Packet, rest: str) -> Iterator[Step]:
        yield REJECTED, packet

    # Statements

    def _random(self, packet: Packet, rest: str, count: str, offset: str) -> Iterator[Step]:
        for number in range(int(offset), int(offset) + int(count)):
            yield from self._rule(rest, replace(packet, priority=f"{number >> 16:x}:{number & 0xFFFF:x}"))

    def _priority(self, packet: Packet, rest: str, priority: str) -> Iterator[Step]:
        yield from self._rule(rest, replace(packet, priority=priority))

    def _name(self, packet: Packet, rest: str, address: str) -> Iterator[Step]:
        found = self._elements["affinity-names"].get(packet.key(address))
        yield "", packet if found is None else replace(packet, destination=found)

    def _recall(self, packet: Packet, rest: str) -> Iterator[Step]:
        yield "", packet  # a client that is not known
        for number in packet.remembered:
            yield from self._rule(rest, replace(packet, priority=number))

    def _choice(self, packet: Packet, rest: str, address: str) -> Iterator[Step]:
        found = self._elements["affinity-choices"].get(f"{packet.key(address)} . {packet.priority}")
        yield "", packet if found is None else replace(packet, priority=found)

    def _cluster_backend(self, packet: Packet, rest: str) -> Iterator[Step]:
        high, low = (int(half, 16) for half in packet.priority.split(":"))
        yield from self._rule(rest, replace(packet, priority=f"{high:x}:{low | 0x10:x}"))

    def _mark(self, packet: Packet, rest: str) -> Iterator[Step]:
        yield from self._rule(rest, replace(packet, is_marked=True))


_CLIENT = r"(?:ip saddr \. ip daddr|jhash .* seed 0x1 \. jhash .* seed 0x2)"
_KEY = r"((?:ct original )?IP daddr(?: and \S+)?) \. meta l4proto \. th dport"
_PARTS = (
    (r"ct state invalid tcp flags & \(rst \| ack\) == rst", "_never"),
    (r"ct state invalid,new IP daddr \{ [^}]* \} fib daddr type != local drop", "_never"),  # no Service has it
    (r"ct state invalid(?= IP daddr @)", "_never"),
    (r"ct state new(?= IP daddr @)", "_always"),
    (rf"{_KEY} vmap @services", "_service"),
    (r"IP daddr @(\S+)", "_in_set"),
    (r"IP daddr != 127\.0\.0\.0/8(?= IP daddr !=)", "_always"),  # no packet of the tests is for the loopback
    (r"IP daddr != (\S+)(?= IP daddr \.)", "_to_other"),
    (r"fib daddr type local IP daddr != \S+", "_to_node"),
    (r"fib saddr type local", "_from_node"),
    (r"IP saddr (!= )?\{ ([^}]*) \}", "_source"),
    (r"meta priority set numgen random mod (\d+) offset (\d+)", "_random"),
    (rf"dnat to {_KEY} \. meta priority map @endpoints", "_translate"),
    (rf"IP daddr set {_KEY} map @affinity-names", "_name"),
    (rf"meta priority set {_CLIENT} map @affinity", "_recall"),
    (rf"meta priority set {_KEY} \. meta priority map @affinity-choices", "_choice"),
    (r"meta priority set meta priority or 0x10", "_cluster_backend"),
    (r"meta priority set (\d+:\d+)(?= accept)", "_priority"),
    (r"meta priority (\d+:\d+)(?= reject)", "_has_priority"),
    (r'[io]if "lo"', "_on_loopback"),
    (r"accept", "_accept"),
    (r"meta mark set meta mark or 0x4000", "_mark"),
    (r"(?:update|delete) @affinity \{[^}]*\}", "_always"),
    (r"jump (\S+)", "_jump"),
    (r"goto (\S+)", "_goto"),
    (r"drop", "_drop"),
    (r"meta l4proto tcp", "_tcp"),
    (r"reject(?: with tcp reset)?", "_reject"),
)

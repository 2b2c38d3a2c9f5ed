"""A walker through the tables of a FakeIptables: where the rules of `proxy/iptables` can send a packet."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import ip_address

from tests.unit.proxy.iptables.fake_iptables import FakeIptables
from tests.unit.proxy.packets import DROPPED, REJECTED, UNTOUCHED, Packet, is_in


def outcomes(kernel: FakeIptables, packet: Packet) -> frozenset[str]:
    """Each is REJECTED, DROPPED, UNTOUCHED, or "ADDRESS:PORT"."""
    found = set()
    for target in _walk(kernel, "nat", "OUTPUT" if packet.is_from_node else "PREROUTING", packet):
        if target.startswith("DNAT"):
            found.add(target.rpartition(" ")[2])
            continue
        hooks = ["OUTPUT"] if packet.is_from_node else [] if packet.is_to_node else ["FORWARD"]
        found |= _filter(kernel, [*hooks, "INPUT"] if packet.is_to_node else hooks, packet)
    return frozenset(found)


def _filter(kernel: FakeIptables, hooks: list[str], packet: Packet) -> set[str]:
    """Return the verdicts of the hooks. Packets of this node to itself pass two."""
    found: set[str] = set()
    for verdict in _walk(kernel, "filter", hooks[0], packet):
        end = {"DROP": DROPPED, "REJECT": REJECTED}.get(verdict.partition(" ")[0], UNTOUCHED)
        found |= _filter(kernel, hooks[1:], packet) if end == UNTOUCHED and hooks[1:] else {end}
    return found


def _walk(kernel: FakeIptables, table: str, chain: str, packet: Packet, first: int = 0) -> Iterator[str]:
    """The targets that end the walk, "" for the end of the chain."""
    rules = kernel.tables[table].chains[chain]
    for number in range(first, len(rules)):
        matches, target = _parse(rules[number])
        verdict = _match(matches, packet)
        if verdict is False:
            continue
        name = target.partition(" ")[0]
        if verdict is None:  # maybe
            yield from _walk(kernel, table, chain, packet, number + 1)
        if name in ("DNAT", "DROP", "REJECT", "ACCEPT"):
            yield target
            return
        if name == "RETURN":
            break
        if name in ("MARK", ""):
            continue
        ends = set(_walk(kernel, table, name, packet))
        yield from ends - {""}
        if "" not in ends:
            return
    yield ""


_ALONE = frozenset(("--set", "--rcheck", "--reap", "--rsource"))


@lru_cache(maxsize=10000)
def _parse(rule: str) -> tuple[tuple[tuple[str, str, bool], ...], str]:
    """Matches as (option, value, whether it is negated), and the target with its options."""
    before, _, target = rule.rpartition("-j ") if "-j " in rule else (rule, "", "")
    arguments = shlex.split(before)
    matches = []
    is_negated = False
    while arguments:
        option = arguments.pop(0)
        if option == "!":
            is_negated = True
            continue
        if option == "--tcp-flags":
            arguments = arguments[2:]
            value = ""
        else:
            value = "" if option in _ALONE else arguments.pop(0)
            if value == "!":  # `--mark` has it behind itself
                is_negated, value = True, arguments.pop(0)
        matches.append((option, value, is_negated))
        is_negated = False
    return tuple(matches), target


def _match(matches: tuple[tuple[str, str, bool], ...], packet: Packet) -> bool | None:
    """None: maybe."""
    verdict: bool | None = True
    for option, value, is_negated in matches:
        one = _one(option, value, packet)
        if one is None:
            verdict = None
        elif one == is_negated:
            return False
    return verdict


def _one(option: str, value: str, packet: Packet) -> bool | None:
    match option:
        case "-d":
            return is_in(packet.address, value)
        case "-s":
            return is_in(packet.source, value)
        case "-p":
            return packet.protocol == value
        case "--dport":
            return packet.port == int(value)
        case "--dst-type":
            return packet.is_to_node
        case "-o" if value == "lo":
            return packet.is_from_node and packet.is_to_node
        case "--src-type":
            return packet.is_from_node
        case "--ctstate":
            return "NEW" in value.split(",")
        case "--mark":
            return False
        case "--src-range":
            first, last = map(ip_address, value.split("-"))
            return first <= ip_address(packet.source) <= last  # type: ignore[operator]
        case "--probability" | "--rcheck":
            return None
        case _:
            return True

"""Rules of packet filters, and the fate of a packet that passes them.

Rules are those of nftables and of both variants of iptables. Conditions that are not understood may hold or not: a
packet is certain to be dropped only if it is in both cases.

Pure: no I/O, no clock, no randomness. Source: libnftables-json(5), iptables-extensions(8), nft(8) "CHAINS".
"""

from __future__ import annotations

import enum
import ipaddress
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from bridgehead.insight.facts.network_state import NetworkState
from bridgehead.insight.rulesets.nft_text import rule_text

_MOST_DEPTH = 16  # chains that call each other, as in the kernel
_MOST_RULES = 20_000  # of one family
_MOST_STEPS = 30_000  # rules that one packet passes: chains may call each other again and again
_FAMILIES = {"ip": (4,), "ip6": (6,), "inet": (4, 6)}
_PRIORITIES = {"raw": -300, "mangle": -150, "nat": -100, "filter": 0, "security": 50}
_HOOKS = {"PREROUTING": "prerouting", "INPUT": "input", "FORWARD": "forward", "OUTPUT": "output"}
# Tables of this project and of kube-proxy, whose rules are compared with the expected ones elsewhere.
_OWN_TABLES = ("bridgehead", "kube-proxy")
_UNKNOWN = -1  # a port that has an unknown name
# Chains of proxies. Of packets without their mark, which pod to pod ones are, they accept none.
_OWN_CHAINS = "KUBE-"
_OWN_RULES = f"-A {_OWN_CHAINS}"
_WELL_KNOWN = {"http": 80, "https": 443, "domain": 53, "ssh": 22, "http-alt": 8080}


class Truth(enum.Enum):
    YES = enum.auto()
    NO = enum.auto()
    MAYBE = enum.auto()


class Packet(NamedTuple):
    """The first packet of a connection. "" and 0: unknown. `is_translated`: its destination was, by the proxy."""

    family: int
    protocol: str
    source: str
    destination: str
    port: int
    iif: str = ""
    oif: str = ""
    is_translated: bool = False
    is_for_node: bool | None = None  # whether the destination is an address of the node
    mark: int | None = None


class Drop(NamedTuple):
    """A rule, or a chain's policy, that drops or rejects a packet. `chain`: `table inet fw, chain input`."""

    chain: str
    text: str
    is_policy: bool = False


class Condition(NamedTuple):
    """`key`: saddr, daddr, dport, proto, iif, oif, state, status, mark, dst-type, family; "" if not understood."""

    key: str
    values: tuple[Any, ...] = ()
    negated: bool = False


class FilterRule(NamedTuple):
    """`verdict`: accept, drop, return, jump, goto; "" for none; "unknown" for one that is not understood."""

    conditions: tuple[Condition, ...]
    verdict: str
    target: str = ""
    text: str = ""
    sets_mark: bool = False


@dataclass
class Chain:
    name: str
    rules: list[FilterRule] = field(default_factory=list)
    hook: str = ""
    priority: int = 0
    policy: str = "accept"


@dataclass
class FilterTable:
    """`container`: the table's text in findings."""

    container: str
    families: Sequence[int]
    chains: dict[str, Chain] = field(default_factory=dict)


class Filters:
    """The packet filters of a node, without those of service proxies."""

    def __init__(self, state: NetworkState) -> None:
        self.tables: list[FilterTable] = []
        saved: set[tuple[int, str]] = set()
        for variant, listings in (("iptables", state.iptables), ("iptables-legacy", state.iptables_legacy)):
            for family, listing in listings.items():
                for table, parsed in _parse_iptables(listing, family, variant).items():
                    self.tables.append(parsed)
                    if variant == "iptables":
                        saved.add((family, table))
        self.tables += _parse_nftables(state.nftables, saved)

    @cached_property
    def may_drop(self) -> bool:
        """Whether any rule or policy drops at all."""
        return any(
            chain.policy == "drop" or any(rule.verdict == "drop" for rule in chain.rules)
            for table in self.tables
            for chain in table.chains.values()
        )

    @cached_property
    def _set_marks(self) -> bool:
        """Whether any rule sets marks, by which network plugins remember what they have accepted (Calico)."""
        return any(rule.sets_mark for table in self.tables for chain in table.chains.values() for rule in chain.rules)

    @cached_property
    def _base_chains(self) -> Mapping[tuple[str, int], Sequence[tuple[FilterTable, Chain]]]:
        """Base chains by hook and family."""
        found: dict[tuple[str, int], list[tuple[FilterTable, Chain]]] = {}
        for table in self.tables:
            for chain in table.chains.values():
                for family in table.families if chain.hook else ():
                    found.setdefault((chain.hook, family), []).append((table, chain))
        return found

    def find_drop(self, packet: Packet, hook: str, before: int | None = None) -> Drop | None:
        """Return what is certain to drop a packet at a hook. `before`: only base chains of a lower priority."""
        if self._set_marks:
            packet = packet._replace(mark=None)
        for table, chain in self._base_chains.get((hook, packet.family), ()):
            if before is None or chain.priority < before:
                drop = _Walk(table, packet).base(chain)
                if drop is not None:
                    return drop
        return None


class _Walk:
    """A packet in one base chain. `is_uncertain`: an earlier rule may have accepted it."""

    def __init__(self, table: FilterTable, packet: Packet) -> None:
        self._table = table
        self._packet = packet
        self._is_uncertain = False
        self._rules_left = _MOST_STEPS

    def base(self, chain: Chain) -> Drop | None:
        result = self._chain(chain, 0)
        if isinstance(result, Drop):
            return None if self._is_uncertain else result
        if result != "accept" and chain.policy == "drop" and not self._is_uncertain:
            return Drop(f"{self._table.container}, chain {chain.name}", "policy drop", is_policy=True)
        return None

    def _chain(self, chain: Chain, depth: int) -> Drop | str:
        """Return the fate: a Drop, `accept`, or "" when the packet leaves the chain."""
        if depth > _MOST_DEPTH:
            self._is_uncertain = True
            return "accept"
        for rule in chain.rules:
            self._rules_left -= 1
            if self._rules_left < 0:
                self._is_uncertain = True
                return "accept"
            truth = matches(rule.conditions, self._packet)
            if truth is Truth.NO or not rule.verdict:
                continue
            is_sure = truth is Truth.YES
            match rule.verdict:
                case "drop":
                    if is_sure:
                        return Drop(f"{self._table.container}, chain {chain.name}", rule.text)
                case "accept":
                    if is_sure:
                        return "accept"
                    self._is_uncertain = True
                case "return":
                    if is_sure:
                        return ""
                    self._is_uncertain = True
                case "jump" | "goto":
                    target = self._table.chains.get(rule.target)
                    if target is None:
                        self._is_uncertain = True
                        continue
                    if not is_sure:
                        self._is_uncertain |= self._may_accept(target, depth + 1)
                        continue
                    result = self._chain(target, depth + 1)
                    if result or rule.verdict == "goto":
                        return result
                case _:
                    self._is_uncertain = True
        return ""

    def _may_accept(self, chain: Chain, depth: int) -> bool:
        if depth > _MOST_DEPTH:
            return True
        for rule in chain.rules:
            self._rules_left -= 1
            if self._rules_left < 0:
                return True
            if matches(rule.conditions, self._packet) is Truth.NO:
                continue
            if rule.verdict in ("accept", "unknown"):
                return True
            target = self._table.chains.get(rule.target)
            if rule.verdict in ("jump", "goto") and (target is None or self._may_accept(target, depth + 1)):
                return True
        return False


# --- Conditions -------------------------------------------------------------------------------------------------


def matches(conditions: Sequence[Condition], packet: Packet) -> Truth:
    """Return whether all conditions hold for a packet."""
    result = Truth.YES
    for condition in conditions:
        truth = _holds(condition, packet)
        if condition.negated and truth is not Truth.MAYBE:
            truth = Truth.NO if truth is Truth.YES else Truth.YES
        if truth is Truth.NO:
            return Truth.NO
        if truth is Truth.MAYBE:
            result = Truth.MAYBE
    return result


def _holds(condition: Condition, packet: Packet) -> Truth:
    results = [_equals(condition.key, value, packet) for value in condition.values]
    if Truth.YES in results:
        return Truth.YES
    return Truth.MAYBE if Truth.MAYBE in results or not results else Truth.NO


def _equals(key: str, value: Any, packet: Packet) -> Truth:
    match key:
        case "saddr":
            return _in_network(packet.source, value)
        case "daddr":
            return _in_network(packet.destination, value)
        case "dport":
            is_known = packet.port and isinstance(value, tuple) and _UNKNOWN not in value
            return _truth(value[0] <= packet.port <= value[1]) if is_known else Truth.MAYBE
        case "proto":
            return _truth(value == packet.protocol) if packet.protocol else Truth.MAYBE
        case "family":
            return _truth(value == packet.family)
        case "iif" | "oif":
            return _interface(packet.iif if key == "iif" else packet.oif, str(value))
        case "state":
            return _truth(value == "new")
        case "status":
            return _truth(packet.is_translated) if value == "dnat" else Truth.MAYBE
        case "dst-type":
            return Truth.MAYBE if packet.is_for_node is None else _truth((value == "local") == packet.is_for_node)
        case "mark":
            if packet.mark is None:
                return Truth.MAYBE
            wanted, mask = value
            return _truth(packet.mark & mask == wanted)
    return Truth.MAYBE


def _truth(value: bool) -> Truth:
    return Truth.YES if value else Truth.NO


def _in_network(address: str, network: object) -> Truth:
    if not address or not isinstance(network, ipaddress.IPv4Network | ipaddress.IPv6Network):
        return Truth.MAYBE
    ip = ipaddress.ip_address(address)
    return _truth(ip.version == network.version and ip in network)


def _interface(name: str, pattern: str) -> Truth:
    if not name:
        return Truth.MAYBE
    if pattern.endswith(("+", "*")):
        return _truth(name.startswith(pattern[:-1]))
    return _truth(name == pattern)


def _network(text: str) -> object:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


# --- iptables ---------------------------------------------------------------------------------------------------


def _parse_iptables(listing: bytes, family: int, variant: str) -> dict[str, FilterTable]:
    tables: dict[str, FilterTable] = {}
    current: FilterTable | None = None
    table = ""
    for number, raw in enumerate(listing.splitlines()):
        line = raw.decode(errors="replace")
        if line.startswith("*"):
            table = line[1:].strip()
            if table == "nat":  # it drops nothing
                current = None
                tables[table] = FilterTable("", ())
                continue
            keyword = "ip6" if family == 6 else "ip"
            current = FilterTable(f"{variant} table {keyword} {table}", (family,))
            tables[table] = current
        elif line.startswith(":") and current is not None:
            name, policy, *_ = (*line[1:].split(), "", "")
            if name.startswith(_OWN_CHAINS):
                continue
            hook = _HOOKS.get(name, "") if policy in ("ACCEPT", "DROP") else ""
            current.chains[name] = Chain(name, [], hook, _PRIORITIES.get(table, 0), policy.lower())
        elif current is not None and number < _MOST_RULES:
            text = line[line.index("-A ") :] if "-A " in line else ""
            argv = _arguments(text) if not text.startswith(_OWN_RULES) else []
            if len(argv) > 1 and argv[1] in current.chains:
                current.chains[argv[1]].rules.append(_iptables_rule(argv[2:], text))
    return tables


def _arguments(line: str) -> list[str]:
    if '"' not in line:
        return line.split()
    try:
        return shlex.split(line)
    except ValueError:
        return []


_PLAIN_MODULES = ("tcp", "udp", "sctp", "comment", "conntrack", "state", "mark", "multiport", "addrtype")


def _iptables_rule(argv: Sequence[str], text: str) -> FilterRule:
    conditions: list[Condition] = []
    verdict = target = ""
    sets_mark = negated = False
    index = 0
    while index < len(argv):
        option, value = argv[index], argv[index + 1] if index + 1 < len(argv) else ""
        index += 1
        if option == "!":
            negated = True
            continue
        if option in ("-j", "-g"):
            verdict, target = _iptables_verdict(option, value)
            sets_mark = value in ("MARK", "CONNMARK")
            break  # options of the target follow
        if option.startswith("-"):
            has_value = bool(value) and not value.startswith("-") and value != "!"
            index += has_value
            condition = _iptables_condition(option, value)
            if condition is not None:
                conditions.append(condition._replace(negated=negated))
        negated = False
    return FilterRule(tuple(conditions), verdict, target, text, sets_mark)


def _iptables_verdict(option: str, value: str) -> tuple[str, str]:
    match value:
        case "ACCEPT":
            return "accept", ""
        case "DROP" | "REJECT":
            return "drop", ""
        case "RETURN":
            return "return", ""
        case "LOG" | "MARK" | "CONNMARK" | "NFLOG" | "TCPMSS" | "CT" | "NOTRACK" | "CHECKSUM" | "DSCP" | "TRACE":
            return "", ""
        case _ if value.startswith(_OWN_CHAINS):
            return "", ""
        case "DNAT" | "SNAT" | "MASQUERADE" | "REDIRECT" | "TPROXY" | "NFQUEUE" | "QUEUE":
            return "unknown", ""
    return "goto" if option == "-g" else "jump", value


def _iptables_condition(option: str, value: str) -> Condition | None:
    match option:
        case "-s" | "-d":
            return Condition("saddr" if option == "-s" else "daddr", (_network(value),))
        case "-i" | "-o":
            return Condition("iif" if option == "-i" else "oif", (value,))
        case "-p":
            return Condition("proto", (value,))
        case "--dport" | "--dports" | "--destination-port" | "--destination-ports":
            return Condition("dport", tuple(map(_ports, value.split(","))))
        case "--ctstate" | "--state":
            return Condition("state", tuple(value.lower().split(",")))
        case "--ctstatus":
            return Condition("status", tuple(value.lower().split(",")))
        case "--dst-type":
            return Condition("dst-type", (value.lower(),)) if value == "LOCAL" else Condition("")
        case "--mark":
            wanted, _, mask = value.partition("/")
            return Condition("mark", ((_number(wanted), _number(mask or "0xffffffff")),))
        case "--comment":
            return None
        case "-m" if value in _PLAIN_MODULES:
            return None
    return Condition("")


def _ports(text: str) -> tuple[int, int]:
    first, colon, last = text.partition(":")
    low = _number(first)
    return low, _number(last) if colon else low


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        return _WELL_KNOWN.get(text, _UNKNOWN)


# --- nftables ---------------------------------------------------------------------------------------------------


def _parse_nftables(listing: bytes, saved: set[tuple[int, str]]) -> list[FilterTable]:
    """Return the tables that are neither of proxies nor those of iptables in `saved`."""
    tables: dict[tuple[str, str], FilterTable] = {}
    try:
        items = msgspec.json.decode(listing)["nftables"] if listing else []
    except (msgspec.DecodeError, KeyError, TypeError, RecursionError):
        return []
    for item in items if isinstance(items, list) else ():
        for kind, content in item.items() if isinstance(item, dict) else ():
            try:
                _add_nft(tables, kind, content, saved)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError):
                continue
    return list(tables.values())


def _add_nft(
    tables: dict[tuple[str, str], FilterTable], kind: str, content: Mapping[str, Any], saved: set[tuple[int, str]]
) -> None:
    family = content.get("family")
    if kind == "table" and family in _FAMILIES:
        name = str(content["name"])
        is_saved = any((each, name) in saved for each in _FAMILIES[family]) and family != "inet"
        if not is_saved and name not in _OWN_TABLES and not name.startswith("bridgehead-"):
            tables[family, name] = FilterTable(f"table {family} {name}", _FAMILIES[family])
        return
    table = tables.get((str(family), str(content.get("table"))))
    if table is None:
        return
    if kind == "chain":
        priority = content.get("prio", 0)
        hook = str(content.get("hook", "")) if content.get("type") != "nat" else ""
        table.chains[content["name"]] = Chain(
            content["name"], [], hook, priority if isinstance(priority, int) else 0, content.get("policy", "accept")
        )
    elif kind == "rule":
        rules = table.chains[content["chain"]].rules
        if len(rules) < _MOST_RULES:
            rules.append(_nft_rule(content))


def _nft_rule(content: Mapping[str, Any]) -> FilterRule:
    conditions: list[Condition] = []
    verdict = target = ""
    sets_mark = False
    for statement in content.get("expr") or ():
        if not isinstance(statement, dict):
            conditions.append(Condition(""))
            continue
        for name, value in statement.items():
            match name:
                case "match":
                    conditions += _nft_match(value)
                case "accept" | "drop" | "return":
                    verdict = name
                case "reject":
                    verdict = "drop"
                case "jump" | "goto":
                    verdict, target = name, str(value["target"])
                case "counter" | "log" | "comment":
                    pass
                case "mangle":
                    sets_mark = True
                case "vmap" | "queue" | "dnat" | "snat" | "masquerade" | "redirect" | "tproxy":
                    verdict = "unknown"
                case _:
                    conditions.append(Condition(""))
    return FilterRule(tuple(conditions), verdict, target, rule_text(content), sets_mark)


def _nft_match(value: Mapping[str, Any]) -> Iterator[Condition]:
    key, more = _nft_key(value["left"])
    yield from more
    if not key or value["op"] not in ("==", "in", "!="):
        yield Condition("")
        return
    values = tuple(_nft_values(key, value["right"]))
    yield Condition(key if values else "", values, value["op"] == "!=")


def _nft_key(left: Any) -> tuple[str, list[Condition]]:
    """Return what is compared, and the conditions that comparing it has."""
    if not isinstance(left, dict):
        return "", []
    if "payload" in left:
        payload = left["payload"]
        protocol, name = payload.get("protocol"), payload.get("field")
        if protocol in ("ip", "ip6"):
            family = [Condition("family", (4 if protocol == "ip" else 6,))]
            return {"saddr": "saddr", "daddr": "daddr", "protocol": "proto", "nexthdr": "proto"}.get(name, ""), family
        if protocol in ("tcp", "udp", "sctp"):
            return ("dport" if name == "dport" else ""), [Condition("proto", (protocol,))]
        return ("dport" if protocol == "th" and name == "dport" else ""), []
    if "meta" in left:
        names = {"iifname": "iif", "oifname": "oif", "iif": "iif", "oif": "oif", "l4proto": "proto"}
        return {**names, "nfproto": "family"}.get(left["meta"].get("key"), ""), []
    if "ct" in left:
        key = left["ct"].get("key")
        return (key if key in ("state", "status") else ""), []
    if "fib" in left and left["fib"].get("result") == "type" and "daddr" in left["fib"].get("flags", ()):
        return "dst-type", []
    return "", []


def _nft_values(key: str, right: Any) -> Iterator[Any]:
    """Yield the values of a comparison; None for one that is not understood."""
    if isinstance(right, dict) and "set" in right:
        for each in right["set"] if isinstance(right["set"], list) else [right["set"]]:
            yield from _nft_values(key, each)
        return
    if isinstance(right, list):
        for each in right:
            yield from _nft_values(key, each)
        return
    if isinstance(right, dict) and "elem" in right:
        yield from _nft_values(key, right["elem"]["val"])
        return
    match key:
        case "saddr" | "daddr":
            yield _nft_network(right)
        case "dport":
            yield _nft_ports(right)
        case "family":
            yield {"ipv4": 4, "ipv6": 6}.get(str(right), 0)
        case "dst-type":
            yield str(right)
        case _:
            if not isinstance(right, str) or right.startswith("@"):
                return
            yield right


def _nft_network(right: Any) -> object:
    if isinstance(right, str):
        return _network(right)
    if isinstance(right, dict) and "prefix" in right:
        return _network(f"{right['prefix']['addr']}/{right['prefix']['len']}")
    return None


def _nft_ports(right: Any) -> tuple[int, int]:
    if isinstance(right, dict) and "range" in right:
        low, high = (_number(str(each)) for each in right["range"])
        return low, high
    number = _number(str(right))
    return number, number

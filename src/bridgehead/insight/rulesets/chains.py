"""KUBE-* chains of iptables, of the iptables and the ipvs mode, as explained lines: this project's and kube-proxy's.

A rule's comment has the Service: `default/web:http cluster IP`. Of a port without a name, kube-proxy leaves out the
colon from v1.20 on. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bridgehead.proxy.address_texts import AddressPort, Family
from bridgehead.proxy.errors import NotUnderstood
from bridgehead.proxy.frontends import ANY_LOCAL, FrontendKey
from bridgehead.proxy.iptables.chains import CANARY, FILTER_NODE_PORTS, SERVICES, target_of
from bridgehead.proxy.iptables.readback import parse_listing

from .entries import KernelFrontend, Mechanism, RulesMode
from .expected_frontends import UNKNOWN, Found, Known
from .rule_descriptions import rule_meaning

TABLES = ("nat", "filter", "mangle")
_BUILT_IN = ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING")
_ORDER = ("PREROUTING", "OUTPUT", "KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-NODE-PORT")
_OF_SERVICES = ("KUBE-FW-", "KUBE-EXT-", "KUBE-XLB-", "KUBE-SVC-", "KUBE-SVL-", "KUBE-SEP-")
_LAST = ("KUBE-MARK-MASQ", "POSTROUTING", "KUBE-POSTROUTING")
_HINTS = ("KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY", CANARY)  # marks without rules that matter

_counter = re.compile(r"\[(\d+):(\d+)\] ").match
_comment = re.compile(r'--comment (?:"((?:[^"\\]|\\.)*)"|(\S+))').search
_owner = re.compile(r"(?:^| )([a-z0-9][a-z0-9./-]*/[a-z0-9][a-z0-9.-]*(?::[^ ]*)?)(?= |$)").search
_destination = re.compile(r"(?:^| )-d ([0-9a-f.:]+)/(?:32|128)(?= )").search
_protocol = re.compile(r"(?:^| )-p (tcp|udp|sctp)(?= )").search
_port = re.compile(r" --dport (\d+)(?= |$)").search
_translation = re.compile(r" -j DNAT --to-destination (?:\[([0-9a-f:]+)\]|([0-9.]+)):(\d+)").search


@dataclass
class Listing:
    """The tables of one family and variant: table -> chain -> rules, with the counters of each, if they are known."""

    family: Family
    mechanism: Mechanism
    tables: Mapping[str, Mapping[str, list[str]]] = field(default_factory=dict)
    counters: Mapping[tuple[str, str], list[tuple[int, int] | None]] = field(default_factory=dict)

    def container(self, table: str, chain: str) -> str:
        """Return the text that `Entry.container` has for a chain."""
        return f"table {'ip6' if self.family == 6 else 'ip'} {table}, chain {chain}"

    @property
    def mode(self) -> RulesMode | None:
        """The mode to which the chains belong; None: no proxy's chains are there."""
        chains = self.tables.get(SERVICES.table, {})
        if "KUBE-NODE-PORT" in chains:
            return RulesMode.IPVS
        has_services = bool(chains.get(SERVICES.name)) or "KUBE-NODEPORTS" in chains
        return RulesMode.IPTABLES if has_services else None


def parse(listing: bytes, family: Family, mechanism: Mechanism) -> Listing:
    """Parse the output of iptables-save, with or without counters. Raises NotUnderstood."""
    lines: list[bytes] = []
    counters: dict[tuple[str, str], list[tuple[int, int] | None]] = {}
    table = ""
    for raw in listing.splitlines():
        text = raw.decode(errors="replace")
        counter = _counter(text)
        if counter is not None:
            text = text[counter.end() :]
        if text.startswith("*"):
            table = text[1:].strip()
        elif text.startswith("-A "):
            numbers = (int(counter[1]), int(counter[2])) if counter is not None else None
            counters.setdefault((table, text[3:].partition(" ")[0]), []).append(numbers)
        lines.append(text.encode())
    parsed = parse_listing(b"\n".join(lines))
    return Listing(family, mechanism, {name: one.chains for name, one in parsed.items()}, counters)


def read_chains(listing: Listing, known: Known, found: Found) -> None:
    """Add the lines of the proxy's chains, and of built-in chains those that jump there."""
    mode = listing.mode
    if mode is None:
        return
    if mode is RulesMode.IPTABLES:
        found.frontends.setdefault(mode, {}).update(_frontends(listing))
    for table in TABLES:
        for chain in _ordered(listing.tables.get(table, {})):
            _chain(listing, mode, table, chain, known, found)


def try_parse(listing: bytes, family: Family, mechanism: Mechanism, found: Found) -> Listing:
    """Parse; what has an unknown format is a problem, and empty."""
    try:
        return parse(listing, family, mechanism)
    except NotUnderstood as error:
        found.problems.append(str(error))
        return Listing(family, mechanism)


def _ordered(chains: Mapping[str, list[str]]) -> list[str]:
    """Return the chains that jump to a proxy's, and the proxy's own, in the order in which a connection passes them."""
    ranks = {name: rank for rank, name in enumerate((*_ORDER, *_OF_SERVICES, "", *_LAST))}

    def rank(name: str) -> tuple[int, str]:
        prefix = next((one for one in _OF_SERVICES if name.startswith(one)), "")
        return ranks.get(name, ranks[prefix]), name

    return sorted((name for name in chains if name.startswith("KUBE-") or name in _BUILT_IN), key=rank)


def _chain(listing: Listing, mode: RulesMode, table: str, chain: str, known: Known, found: Found) -> None:
    counters = listing.counters.get((table, chain), [])
    rules = listing.tables[table][chain]
    # Some rules of a Service's own chains have no comment.
    owner_of_chain = next(filter(None, map(owner_in, rules)), "") if chain.startswith(_OF_SERVICES) else ""
    for index, rule in enumerate(rules):
        if chain in _BUILT_IN and not target_of(rule).startswith("KUBE-"):
            continue
        key = _key(listing.family, table, chain, rule)
        owner = owner_in(rule) or owner_of_chain
        if not owner and key is not None:
            owner = known.owner(key)
        explained, meaning = True, rule_meaning("iptables", f"{chain} {rule}")
        if chain not in _HINTS:
            explained = bool(meaning) and _is_explained(chain, rule, key, owner, known)
        found.add(
            mode,
            listing.mechanism,
            listing.container(table, chain),
            f"-A {chain} {rule}",
            meaning or UNKNOWN,
            frontend=key,
            service=owner or _owner_of_cluster_ip(chain, rule, known),
            backend=_translated(rule),
            counter=counters[index] if index < len(counters) else None,
            explained=explained,
        )


def _is_explained(chain: str, rule: str, key: FrontendKey | None, owner: str, known: Known) -> bool:
    if chain == "KUBE-CLUSTER-IPS":
        match = _destination(rule)
        return match is None or known.explains(address=match[1])
    if key is not None and chain not in ("KUBE-SVC", "KUBE-SVL"):
        return known.explains(key)
    return not owner or known.explains(owner=owner)


def _owner_of_cluster_ip(chain: str, rule: str, known: Known) -> str:
    match = _destination(rule) if chain == "KUBE-CLUSTER-IPS" else None
    return known.addresses.get(match[1], "") if match is not None else ""


def owner_in(rule: str) -> str:
    """Return the Service port `namespace/name:port` in a rule's comment; "" without one."""
    comment = _comment(rule)
    if comment is None:
        return ""
    owner = _owner(comment[1] if comment[1] is not None else comment[2])
    if owner is None:
        return ""
    return owner[1] if ":" in owner[1] else f"{owner[1]}:"


def _translated(rule: str) -> AddressPort | None:
    match = _translation(rule)
    return (match[1] or match[2], int(match[3])) if match is not None else None


def _key(family: Family, table: str, chain: str, rule: str) -> FrontendKey | None:
    """Return the destination that a rule matches; None if it matches others or many."""
    protocol, port = _protocol(rule), _port(rule)
    if protocol is None or port is None:
        return None
    destination = _destination(rule)
    if destination is not None:
        return FrontendKey(destination[1], protocol[1], int(port[1]))
    if (table, chain) == FILTER_NODE_PORTS:  # health checks
        return None
    if chain == "KUBE-NODEPORTS" or "--dst-type LOCAL" in rule:
        return FrontendKey(ANY_LOCAL[family], protocol[1], int(port[1]))
    return None


# --- Frontends, as the chains serve them --------------------------------------------------------------------


def _frontends(listing: Listing) -> dict[FrontendKey, KernelFrontend]:
    nat, filters = listing.tables.get("nat", {}), listing.tables.get("filter", {})
    found: dict[FrontendKey, KernelFrontend] = {}
    for chain in ("KUBE-SERVICES", "KUBE-NODEPORTS"):
        for rule in nat.get(chain, ()):
            key, target = _key(listing.family, "nat", chain, rule), target_of(rule)
            if key is None or not target.startswith("KUBE-") or target == "KUBE-MARK-MASQ" or key in found:
                continue
            everywhere, cluster = _backends(nat, target)
            found[key] = KernelFrontend(
                key=key,
                service=owner_in(rule),
                backends=tuple(everywhere),
                cluster_backends=tuple(cluster) if cluster is not None else None,
                chains=tuple(listing.container("nat", name) for name in _reachable(nat, target)),
            )
    for chain in ("KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES"):
        for rule in filters.get(chain, ()):
            key, verdict = _key(listing.family, "filter", chain, rule), _verdict(rule)
            if key is None or not verdict:
                continue
            present = found.get(key)
            if present is None:
                found[key] = KernelFrontend(key=key, service=owner_in(rule), verdict=verdict)
            elif not present.backends:
                found[key] = KernelFrontend(
                    key=key,
                    service=present.service,
                    cluster_backends=present.cluster_backends,
                    verdict=verdict,
                    chains=present.chains,
                )
    return found


def _verdict(rule: str) -> str:
    if " -j REJECT" in rule:
        return "reject"
    return "drop" if rule.endswith("-j DROP") else ""


def _backends(nat: Mapping[str, list[str]], target: str) -> tuple[list[AddressPort], list[AddressPort] | None]:
    """Return the backends of most clients, and those of clients in the cluster; None if these are the same."""
    if target.startswith("KUBE-FW-"):
        targets = [target_of(rule) for rule in nat.get(target, ())]
        target = next((one for one in targets if one.startswith(("KUBE-EXT-", "KUBE-SVC-", "KUBE-XLB-"))), target)
    if not target.startswith(("KUBE-EXT-", "KUBE-XLB-")):
        return list(_of_service_chain(nat, target)), None
    everywhere: list[AddressPort] = []
    cluster: list[AddressPort] | None = None
    for rule in nat.get(target, ()):
        chain = target_of(rule)
        if not chain.startswith(("KUBE-SVC-", "KUBE-SVL-", "KUBE-SEP-")):
            continue
        backends = _of_service_chain(nat, chain)
        if rule.startswith(("-s ", "-i ")) or "--src-type LOCAL" in rule:
            cluster = list(backends)
        else:
            everywhere += (one for one in backends if one not in everywhere)
    return everywhere, cluster


def _of_service_chain(nat: Mapping[str, list[str]], chain: str) -> dict[AddressPort, None]:
    rules = nat.get(chain, ())
    chains = [chain] if chain.startswith("KUBE-SEP-") else [target_of(rule) for rule in rules]
    translated = (_translated(rule) for name in chains if name.startswith("KUBE-SEP-") for rule in nat.get(name, ()))
    return dict.fromkeys(backend for backend in translated if backend is not None)


def _reachable(nat: Mapping[str, list[str]], chain: str) -> Iterator[str]:
    seen: set[str] = set()
    waiting = [chain]
    while waiting:
        name = waiting.pop(0)
        if name in seen or name not in nat or name == "KUBE-MARK-MASQ":
            continue
        seen.add(name)
        yield name
        waiting += (target_of(rule) for rule in nat[name] if " -j KUBE-" in f" {rule}")

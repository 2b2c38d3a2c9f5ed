"""Chains and rules of this proxy that kube-proxy neither uses nor replaces when it has taken a node over.

Pure: no I/O, no clock, no randomness.

kube-proxy (1.26 and later) in mode iptables empties and fills the chains that it shares with this proxy in its first
sync, and so it does in mode ipvs with fewer of them. Everything that packets of kube-proxy's rules can reach stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from bridgehead.proxy.address_texts import Family

from .chains import CLUSTER_IPS, EXTERNAL_SERVICES, FIREWALL, REJECT, Chain, target_of
from .readback import Table
from .transaction import EMPTY, Tables, Transaction

_is_of_a_service = re.compile(r"KUBE-(?:SVC|SVL|EXT|FW|SEP)-[A-Z2-7]{16}").fullmatch
_NEVER_KUBE_PROXYS = frozenset((CLUSTER_IPS, REJECT))
# Chains of kube-proxy's mode iptables that its mode ipvs does not have.
_NOT_OF_IPVS = frozenset(
    (
        Chain("nat", "KUBE-NODEPORTS"),
        *(Chain("filter", name) for name in ("KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS")),
    )
)


def removal(kernel: Mapping[Family, Tables], mode: str) -> Transaction:
    """Return the transaction that removes what kube-proxy in that mode, iptables or ipvs, does not use."""
    transaction = Transaction()
    for family, tables in kernel.items():
        _remove_rules(family, tables, transaction)
        stale = frozenset(_stale_chains(tables, mode))
        transaction.remove(family, tables, lambda table, name, stale=stale: (table, name) in stale)  # type: ignore[misc]
    return transaction


def _stale_chains(tables: Tables, mode: str) -> Iterator[Chain]:
    nat, filter_ = tables.get("nat", EMPTY), tables.get("filter", EMPTY)
    not_used = _NOT_OF_IPVS if mode == "ipvs" else frozenset()
    reached = _reached(nat, {chain.name for chain in not_used if chain.table == "nat"})
    for name in nat.chains:
        if Chain("nat", name) in not_used or (_is_of_a_service(name) and name not in reached):
            yield Chain("nat", name)
    for name, rules in filter_.chains.items():
        chain = Chain("filter", name)
        if chain in _NEVER_KUBE_PROXYS or chain in not_used or (chain == FIREWALL and _is_only_ours(rules)):
            yield chain


def _reached(nat: Table, ignored: set[str]) -> set[str]:
    """Return the chains of Services to which other chains lead, those that are ignored aside."""
    reached: set[str] = set()
    pending = [name for name in nat.chains if not _is_of_a_service(name) and name not in ignored]
    while pending:
        for rule in nat.chains.get(pending.pop(), ()):
            target = _target(rule)
            if _is_of_a_service(target) and target not in reached:
                reached.add(target)
                pending.append(target)
    return reached


def _target(rule: str) -> str:
    """Return the target of a rule of any program."""
    found = re.search(r"(?:^| )(?:-j|-g) (\S+)", rule)
    return found[1] if found else ""


def _remove_rules(family: Family, tables: Tables, transaction: Transaction) -> None:
    """Remove rules of ours from chains that stay: from the kubelet's, and a jump that kube-proxy does not have."""
    chains = tables.get("filter", EMPTY).chains
    lines = [f"-D OUTPUT {rule}" for rule in chains.get("OUTPUT", ()) if target_of(rule) == EXTERNAL_SERVICES.name]
    firewall = chains.get(FIREWALL.name, [])
    if not _is_only_ours(firewall):
        lines += (f"-D {FIREWALL.name} {rule}" for rule in firewall if _is_our_guard(rule))
    if lines:
        transaction.part(family, "filter").lines.extend(lines)


def _is_our_guard(rule: str) -> bool:
    """Return whether a rule of KUBE-FIREWALL drops packets that connection tracking does not translate.

    The kubelet's and kube-proxy's rules there match other things: loopback addresses, and formerly a mark.
    """
    return "--ctstate INVALID" in rule and target_of(rule) == "DROP"


def _is_only_ours(rules: list[str]) -> bool:
    return bool(rules) and all(map(_is_our_guard, rules))

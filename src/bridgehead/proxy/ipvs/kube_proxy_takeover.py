"""Parts of the ipvs mode that kube-proxy's mode ipvs neither uses nor replaces. Pure: no I/O, no clock, no randomness.

kube-proxy empties and fills the chains and sets that have its names, and removes virtual servers that it does not want,
in its first sync. It does not know virtual servers of marks.

A kube-proxy before 1.23 serves one IP family only, and later ones write one family after the other.
"""

from __future__ import annotations

from collections.abc import Collection

from bridgehead.proxy.address_texts import Family, family_of
from bridgehead.proxy.iptables.readback import Table

from . import chains, sets
from .readback import KernelState, Ownership
from .transaction import Transaction

_FAMILIES: tuple[Family, ...] = (4, 6)
_OWN_CHAINS = frozenset(
    ("mangle", name) for name in ("KUBE-IPVS", "KUBE-PROXY-FIREWALL", "KUBE-SOURCE-RANGES-FIREWALL")
)


def written(kernel: KernelState) -> dict[Family, bool]:
    """Return the families that have rules, and whether kube-proxy wrote them: ours refer to a set of ours."""
    found = {}
    for family, tables in kernel.tables.items():
        rules = tables.get("nat", Table()).chains.get("KUBE-SERVICES", ())
        if rules:
            ours = f" {sets.in_family(sets.MASQUERADED, family)} "
            found[family] = not any(ours in rule for rule in rules)
    return found


def own_sets(unwritten: Collection[Family] = (), *, are_abandoned: bool = False) -> list[str]:
    """Return the names of the sets that kube-proxy does not have, and all sets of families that are abandoned to it."""
    names = (sets.MASQUERADED, sets.DROPPED, sets.CLUSTER_CLIENTS, sets.TRIAL, sets.INTERIM)
    found = [sets.in_family(name, family) for family in _FAMILIES if family not in unwritten for name in names]
    if are_abandoned:
        found += (name for name in sets.all_names() for family in unwritten if sets.is_of(name, family))
    return found


def removal(kernel: KernelState, unwritten: Collection[Family] = (), *, are_abandoned: bool = False) -> Transaction:
    """Return the transaction that removes chains and virtual servers; the sets remain, which the rules refer to.

    Unwritten families stay as they are, or go with all that they have.
    """
    transaction = Transaction()
    ours = Ownership(kernel)
    for family, tables in kernel.tables.items():
        if family not in unwritten:
            transaction.rules.remove(family, tables, lambda table, name: (table, name) in _OWN_CHAINS)
        elif are_abandoned:
            chains.remove(family, tables, transaction.rules)
            transaction.unbound += sorted(address for address in kernel.bound if family_of(address) == family)
    for server in sorted(kernel.servers):
        if are_abandoned if server.family in unwritten else server.mark:
            transaction.gone += [server] if ours(server) else []
    return transaction

"""Parts of the ipvs mode that kube-proxy's mode ipvs neither uses nor replaces. Pure: no I/O, no clock, no randomness.

kube-proxy empties and fills the chains and sets that have its names, and removes virtual servers that it does not want,
in its first sync. It does not know virtual servers of marks.
"""

from __future__ import annotations

from bridgehead.proxy.address_texts import Family

from . import sets
from .readback import KernelState, Ownership
from .transaction import Transaction

_FAMILIES: tuple[Family, ...] = (4, 6)
_OWN_CHAINS = frozenset(
    ("mangle", name) for name in ("KUBE-IPVS", "KUBE-PROXY-FIREWALL", "KUBE-SOURCE-RANGES-FIREWALL")
)


def own_sets() -> list[str]:
    """Return the names of the sets that kube-proxy does not have, in both families."""
    names = (sets.MASQUERADED, sets.DROPPED, sets.CLUSTER_CLIENTS, sets.TRIAL)
    return [sets.in_family(name, family) for family in _FAMILIES for name in names]


def removal(kernel: KernelState) -> Transaction:
    """Return the transaction that removes chains and virtual servers; the sets remain, which the rules refer to."""
    transaction = Transaction()
    for family, tables in kernel.tables.items():
        transaction.rules.remove(family, tables, lambda table, name: (table, name) in _OWN_CHAINS)
    ours = Ownership(kernel)
    transaction.gone = [server for server in sorted(kernel.servers) if server.mark and ours(server)]
    return transaction

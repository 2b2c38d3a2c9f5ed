"""A node's rules for Services, from the state of its network namespace. Pure: no I/O, no clock, no randomness."""

from __future__ import annotations

from collections.abc import Iterable

from bridgehead.insight.facts.network_state import NetworkState
from bridgehead.proxy.frontends import Frontend

from . import kube_proxy_tables, own_tables
from .chains import read_chains, try_parse
from .entries import Mechanism, NodeRules, RulesMode
from .expected_frontends import Found, Known
from .nft_listing import parse_tables
from .virtual_servers import read_virtual_servers


def read_rules(
    state: NetworkState, frontends: Iterable[Frontend] | None = None, cluster_ips: Iterable[str] = ()
) -> NodeRules:
    """Return the rules with the Services that they are there for.

    `frontends` and `cluster_ips` are those that the node should have (`expectations.expect_node(...).table`); lines
    that belong to none of these are unexplained. None: Services are known by the names in the rules alone.
    """
    known, found = Known(frontends, cluster_ips), Found()
    tables, problems = parse_tables(state.nftables, {*own_tables.MODES, kube_proxy_tables.NAME})
    found.problems += problems
    for table in tables:
        if table.name == kube_proxy_tables.NAME:
            kube_proxy_tables.read_kube_proxy_table(table, known, found)
        else:
            own_tables.read_own_table(table, known, state.listeners, found)
    is_ipvs = False
    for mechanism, listings in (
        (Mechanism.IPTABLES, state.iptables),
        (Mechanism.IPTABLES_LEGACY, state.iptables_legacy),
    ):
        for family in sorted(listings):
            listing = try_parse(listings[family], family, mechanism, found)
            is_ipvs |= listing.mode is RulesMode.IPVS
            read_chains(listing, known, found)
    if is_ipvs or state.virtual_servers:
        read_virtual_servers(state.virtual_servers, state.ip_sets, state.interfaces, known, found)
    return NodeRules(
        entries=tuple(found.entries),
        frontends=found.frontends,
        unexplained=tuple(found.unexplained),
        problems=tuple(sorted(set(found.problems))),
        ipvs=found.ipvs,
    )

"""L2Advertisements and BGPAdvertisements compiled, and attached to the pools that they name.

Pure: no I/O, no clock, no randomness. Source: MetalLB, internal/config.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bridgehead.balancer.compiled_configuration import BgpAdvertisement, Layer2Advertisement, NodeSelection, Pool
from bridgehead.balancer.errors import ConfigurationInvalid
from bridgehead.balancer.ranges import AddressRange, address_of
from bridgehead.objects.meta import LabelSelector
from bridgehead.objects.metallb import BGPAdvertisement, L2Advertisement

from .communities import community_value
from .inputs import NodeFacts, about
from .pools import range_text
from .selections import check_unique, compile_selectors, quote, share_nodes


class PoolSelection:
    """The pools that an advertisement concerns: named or selected ones; without either, all."""

    def __init__(self, names: Sequence[str], selectors: Sequence[LabelSelector]) -> None:
        check_unique(names, "ipAddressPools")
        self._names = frozenset(names)
        self._selectors = compile_selectors(selectors, "ipAddressPoolSelectors")

    def concerns(self, pool: Pool) -> bool:
        if not self._names and not self._selectors:
            return True
        return pool.name in self._names or any(selector.matches(pool.labels) for selector in self._selectors)


def attach_layer2(pools: dict[str, Pool], advertisements: Sequence[L2Advertisement]) -> None:
    """Add the advertisements to the pools in place. Raises ConfigurationInvalid."""
    for obj in advertisements:
        try:
            selection = PoolSelection(obj.spec.ip_address_pools, obj.spec.ip_address_pool_selectors)
            compiled = _layer2(obj)
        except ValueError as error:
            raise ConfigurationInvalid(f"parsing l2advertisement {obj.metadata.name}: {error}", about(obj)) from None
        for name, pool in pools.items():
            if selection.concerns(pool):
                pools[name] = replace(pool, layer2=(*pool.layer2, compiled))


def _layer2(obj: L2Advertisement) -> Layer2Advertisement:
    spec = obj.spec
    return Layer2Advertisement(
        name=obj.metadata.name,
        nodes=NodeSelection(compile_selectors(spec.node_selectors, "nodeSelectors")),
        interfaces=spec.interfaces,
        service_selectors=compile_selectors(spec.service_selectors, "serviceSelectors"),
        preferences=tuple(
            (preferred.weight, selector)
            for preferred in spec.preferred_node_selectors
            for selector in compile_selectors((preferred.preference,), "preference")
        ),
    )


def attach_bgp(
    pools: dict[str, Pool],
    advertisements: Sequence[BGPAdvertisement],
    aliases: Mapping[str, tuple[int, ...]],
    nodes: Mapping[str, NodeFacts],
) -> None:
    """Add the advertisements to the pools in place. Raises ConfigurationInvalid."""
    for obj in advertisements:
        try:
            selection = PoolSelection(obj.spec.ip_address_pools, obj.spec.ip_address_pool_selectors)
            compiled = _bgp(obj, aliases)
            for name, pool in pools.items():
                if selection.concerns(pool):
                    _check_aggregation(compiled, pool)
                    _check_local_preference(compiled, pool, nodes)
                    pools[name] = replace(pool, bgp=(*pool.bgp, compiled))
        except ValueError as error:
            raise ConfigurationInvalid(f"parsing bgpadvertisement {obj.metadata.name}: {error}", about(obj)) from None


def _bgp(obj: BGPAdvertisement, aliases: Mapping[str, tuple[int, ...]]) -> BgpAdvertisement:
    spec = obj.spec
    check_unique(spec.communities, "community")
    check_unique(spec.peers, "peers")
    selectors = compile_selectors(spec.service_selectors, "serviceSelectors")
    for field, length, longest in (
        ("aggregationLength", spec.aggregation_length, 32),
        ("aggregationLengthV6", spec.aggregation_length_v6, 128),
    ):
        if selectors and length != longest:
            raise ValueError(
                f"serviceSelectors and {field} are mutually exclusive, both cannot be set in {obj.metadata.name}"
            )
        if not 0 <= length <= longest:
            raise ValueError(f"invalid aggregation length {length} for IPv{4 if longest == 32 else 6}")
    communities = set()
    for text in spec.communities:
        try:
            communities.add(community_value(text, aliases))
        except ValueError as error:
            raise ValueError(f"invalid community {quote(text)} in BGP advertisement: {error}") from None
    return BgpAdvertisement(
        name=obj.metadata.name,
        nodes=NodeSelection(compile_selectors(spec.node_selectors, "nodeSelectors")),
        service_selectors=selectors,
        aggregation_length=spec.aggregation_length,
        aggregation_length_v6=spec.aggregation_length_v6,
        local_preference=spec.local_pref,
        communities=frozenset(communities),
        peers=spec.peers or None,
    )


def _check_aggregation(advertisement: BgpAdvertisement, pool: Pool) -> None:
    """Refuse an aggregate that would reach beyond every network of a range."""
    for range_ in pool.ranges:
        length = advertisement.aggregation_length if range_.version == 4 else advertisement.aggregation_length_v6
        shortest = _shortest_prefix(range_)
        if length < shortest:
            raise ValueError(
                f"invalid aggregation length {length}: prefix {shortest} in this pool is more specific than the"
                f" aggregation length for addresses {range_text(range_)}"
            )


def _shortest_prefix(range_: AddressRange) -> int:
    first, last = address_of(range_.version, range_.first), address_of(range_.version, range_.last)
    networks = ipaddress.summarize_address_range(first, last)
    return min(network.prefixlen for network in networks)


def _check_local_preference(new: BgpAdvertisement, pool: Pool, nodes: Mapping[str, NodeFacts]) -> None:
    """Refuse two local preferences for one route. Advertisements of selected Services are not compared."""
    if new.service_selectors:
        return
    versions = {range_.version for range_ in pool.ranges}
    for old in pool.bgp:
        if old.service_selectors or old.local_preference == new.local_preference:
            continue
        is_same_route = (4 in versions and old.aggregation_length == new.aggregation_length) or (
            6 in versions and old.aggregation_length_v6 == new.aggregation_length_v6
        )
        are_peers_shared = old.peers is None or new.peers is None or set(old.peers) & set(new.peers)
        if is_same_route and are_peers_shared and share_nodes(old.nodes, new.nodes, nodes):
            raise ValueError(
                f"invalid local preference {new.local_preference}: local preference {old.local_preference} was already"
                " set for the same type of BGP update. Check existing BGP advertisements with common pools and"
                " aggregation lengths"
            )

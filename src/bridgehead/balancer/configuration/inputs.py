"""Inputs of a configuration, and warnings about single objects.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bridgehead.balancer.ranges import AddressRange, IpAddress
from bridgehead.objects import metallb, openelb
from bridgehead.objects.core import ConfigMap
from bridgehead.objects.kinds import CONFIG_MAPS, Kind
from bridgehead.objects.meta import Object, ObjectReference
from bridgehead.objects.selectors import Labels

DEFAULT_NAMESPACE = "metallb-system"


@dataclass(frozen=True)
class NodeFacts:
    """The facts of a node on which a configuration depends."""

    labels: Labels = field(default_factory=dict)
    addresses: tuple[IpAddress, ...] = ()


@dataclass(frozen=True)
class ConfigurationObjects:
    """The objects, in any order.

    `namespace`: the only one whose objects of MetalLB's kinds count. `config_map`: the ConfigMap `config` of MetalLB
    before 0.13. `nodes` by name. `reserved`: further addresses that no pool may contain, each with a description.
    """

    namespace: str = DEFAULT_NAMESPACE
    pools: tuple[metallb.IPAddressPool, ...] = ()
    layer2_advertisements: tuple[metallb.L2Advertisement, ...] = ()
    bgp_advertisements: tuple[metallb.BGPAdvertisement, ...] = ()
    peers: tuple[metallb.BGPPeer, ...] = ()
    bfd_profiles: tuple[metallb.BFDProfile, ...] = ()
    communities: tuple[metallb.Community, ...] = ()
    config_map: ConfigMap | None = None
    eips: tuple[openelb.Eip, ...] = ()
    bgp_confs: tuple[openelb.BgpConf, ...] = ()
    openelb_peers: tuple[openelb.BgpPeer, ...] = ()
    nodes: Mapping[str, NodeFacts] = field(default_factory=dict)
    reserved: tuple[tuple[AddressRange, str], ...] = ()


@dataclass(frozen=True)
class Rejection:
    """An object that does not count, or not as its author thinks; `message` and `reason` go to a Warning Event."""

    about: ObjectReference
    message: str
    reason: str = "InvalidConfiguration"


_KINDS: dict[type[Object], Kind[Any]] = {
    kind.type: kind
    for kind in (
        metallb.IP_ADDRESS_POOLS,
        metallb.L2_ADVERTISEMENTS,
        metallb.BGP_ADVERTISEMENTS,
        metallb.BGP_PEERS,
        metallb.BFD_PROFILES,
        metallb.COMMUNITIES,
        openelb.EIPS,
        openelb.BGP_CONFS,
        openelb.BGP_PEERS,
        CONFIG_MAPS,
    )
}


def about(obj: Object) -> ObjectReference:
    """Return a reference to an object of a kind that configures the balancer."""
    kind = _KINDS[type(obj)]
    meta = obj.metadata
    return ObjectReference(
        api_version=kind.api_version,
        kind=kind.name,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )

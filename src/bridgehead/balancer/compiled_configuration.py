"""Configuration in force: pools of addresses, how their addresses are announced, and BGP peers.

MetalLB's objects, its older ConfigMap and OpenELB's objects all compile to these values (`configuration/`). The
controller allocates by `Pool`, the speakers announce by the advertisements of the pool that holds an address.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from bridgehead.objects.selectors import Labels, Selector

from .ranges import AddressRange, IpAddress


@dataclass(frozen=True)
class NodeSelection:
    """Nodes by labels: those that match any of `selectors`; all of them without a selector."""

    selectors: tuple[Selector, ...] = ()

    def matches(self, labels: Labels) -> bool:
        return not self.selectors or any(selector.matches(labels) for selector in self.selectors)


@dataclass(frozen=True)
class Layer2Advertisement:
    """Announcement by ARP and neighbour discovery, from one node at a time.

    `interfaces`: names of network interfaces; empty: all. `service_selectors`: any must match; empty: all Services.
    `preferences`: weights (1 to 100) of nodes by label; the candidate with the highest sum announces.
    """

    name: str
    nodes: NodeSelection = NodeSelection()
    interfaces: tuple[str, ...] = ()
    service_selectors: tuple[Selector, ...] = ()
    preferences: tuple[tuple[int, Selector], ...] = ()


@dataclass(frozen=True)
class BgpAdvertisement:
    """Announcement as routes, from every node that may announce.

    `communities`: (a, b) or (a, b, c) of a large community. `peers`: names of peers; None: all.
    """

    name: str
    nodes: NodeSelection = NodeSelection()
    service_selectors: tuple[Selector, ...] = ()
    aggregation_length: int = 32
    aggregation_length_v6: int = 128
    local_preference: int = 0
    communities: frozenset[tuple[int, ...]] = frozenset()
    peers: tuple[str, ...] | None = None

    def is_for(self, peer: str) -> bool:
        return self.peers is None or peer in self.peers


@dataclass(frozen=True)
class VrrpAdvertisement:
    """Announcement by VRRP on one interface, from one node at a time (OpenELB's protocol vip)."""

    name: str
    interface: str
    nodes: NodeSelection = NodeSelection()


@dataclass(frozen=True)
class ServiceSelection:
    """Services that may use a pool (`serviceAllocation`).

    Namespaces: in `namespaces`, or matching any of `namespace_selectors`; any namespace if both are empty. Services:
    matching any of `service_selectors`; any without one. `priority`: lowest first; 0 is last.
    """

    priority: int = 0
    namespaces: frozenset[str] = frozenset()
    namespace_selectors: tuple[Selector, ...] = ()
    service_selectors: tuple[Selector, ...] = ()


@dataclass(frozen=True)
class Pool:
    """Addresses that Services may get.

    `source`: whose object it is. `openelb` pools are given out by OpenELB's rules, `metallb` ones by MetalLB's.
    `is_default`: OpenELB's default Eip. `is_fallback`: the lab's own pool; addresses that another pool contains belong
    to that other pool. `is_disabled`: keeps its addresses but gives out no more (OpenELB `disable`).
    """

    name: str
    source: Literal["metallb", "openelb"]
    ranges: tuple[AddressRange, ...]
    labels: Labels = field(default_factory=dict)
    auto_assign: bool = True
    avoid_buggy_ips: bool = False
    services: ServiceSelection | None = None
    is_default: bool = False
    is_fallback: bool = False
    is_disabled: bool = False
    layer2: tuple[Layer2Advertisement, ...] = ()
    bgp: tuple[BgpAdvertisement, ...] = ()
    vrrp: tuple[VrrpAdvertisement, ...] = ()

    def __contains__(self, address: object) -> bool:
        return any(address in range_ for range_ in self.ranges)

    @property
    def is_for_external_ips(self) -> bool:
        """Whether Services may have addresses of the pool as externalIPs, as long as no Service is given them.

        A pool that gives addresses by itself is not for that, as little as one that is for some Services only.
        """
        gives_by_itself = self.auto_assign if self.source == "metallb" else self.is_default
        return not gives_by_itself and self.services is None


@dataclass(frozen=True)
class BfdProfile:
    """Parameters of BFD sessions. Intervals in milliseconds. Source: MetalLB's BFDProfile (FRR's defaults)."""

    name: str
    receive_interval: int = 300
    transmit_interval: int = 300
    detect_multiplier: int = 3
    echo_interval: int = 50
    echo_mode: bool = False
    passive_mode: bool = False
    minimum_ttl: int = 254


@dataclass(frozen=True)
class Peer:
    """A BGP neighbour, with which every selected node has a session. Times in seconds; None: the default.

    `peer_asn` is a number, or "internal" or "external". `password_secret`: namespace and name of a Secret of type
    kubernetes.io/basic-auth, or None. `both_families`: announce routes of both families in the session. `listen_port`:
    where the node waits for the peer to connect; 0: the node connects.
    """

    name: str
    my_asn: int
    peer_asn: int | Literal["internal", "external"]
    address: IpAddress
    port: int = 179
    source_address: IpAddress | None = None
    hold_time: int | None = None
    keepalive_time: int | None = None
    connect_time: int | None = None
    router_id: str = ""
    nodes: NodeSelection = NodeSelection()
    password: str = ""
    password_secret: tuple[str, str] | None = None
    bfd_profile: str = ""
    graceful_restart: bool = False
    ebgp_multi_hop: bool = False
    listen_port: int = 0
    both_families: bool = False
    disable_mp: bool = False  # without effect: MetalLB replaced it by dualStackAddressFamily


@dataclass(frozen=True)
class Configuration:
    """All that speakers and the controller act on. `peers` and `bfd_profiles` by name."""

    pools: tuple[Pool, ...] = ()
    peers: dict[str, Peer] = field(default_factory=dict)
    bfd_profiles: dict[str, BfdProfile] = field(default_factory=dict)

    def pool_of(self, address: IpAddress) -> Pool | None:
        """Return the pool that contains the address; the fallback pool only if no other does."""
        found = [pool for pool in self.pools if address in pool]
        return min(found, key=lambda pool: pool.is_fallback, default=None)

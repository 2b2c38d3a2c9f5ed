"""OpenELB's kinds (group network.kubesphere.io), with the fields that Bridgehead uses.

The entries are not in `kinds.ALL_KINDS`: only the balancer's parts load this module.

Pure: no I/O, no clock, no randomness. Source: OpenELB's CustomResourceDefinitions, v1alpha2.
"""

from __future__ import annotations

from typing import Final

import msgspec

from .kinds import Kind
from .meta import LabelSelector, Object, Part

GROUP: Final = "network.kubesphere.io"


class EipSpec(Part, frozen=True, kw_only=True):
    """`address`: an address, a CIDR or a range `a-b`. `protocol`: layer2, bgp or vip; empty: bgp."""

    address: str = ""
    protocol: str = ""
    interface: str = ""
    disable: bool = False
    priority: int = 0
    namespaces: tuple[str, ...] = ()
    namespace_selector: dict[str, str] = {}


class EipStatus(Part, frozen=True, kw_only=True):
    """`used`: Services as `namespace/name`, separated by semicolons, by address."""

    occupied: bool = False
    usage: int = 0
    pool_size: int = 0
    used: dict[str, str] = {}
    first_ip: str = ""
    last_ip: str = ""
    ready: bool = False
    v4: bool = False


class Eip(Object, frozen=True, kw_only=True):
    spec: EipSpec = EipSpec()
    status: EipStatus = EipStatus()


class GracefulRestart(Part, frozen=True, kw_only=True):
    enabled: bool = False


class BgpConfSpec(Part, frozen=True, kw_only=True):
    """`as_`: the local AS number."""

    as_: int = msgspec.field(name="as", default=0)
    router_id: str = msgspec.field(name="routerId", default="")
    listen_port: int = msgspec.field(name="listenPort", default=0)
    graceful_restart: GracefulRestart = GracefulRestart()


class BgpConf(Object, frozen=True, kw_only=True):
    spec: BgpConfSpec = BgpConfSpec()


class NeighborConfig(Part, frozen=True, kw_only=True):
    peer_as: int = 0
    local_as: int = 0
    neighbor_address: str = ""
    neighbor_interface: str = ""
    auth_password: str = ""
    vrf: str = ""


class EbgpMultihop(Part, frozen=True, kw_only=True):
    enabled: bool = False


class TimersConfig(Part, frozen=True, kw_only=True):
    """Seconds as text, as in GoBGP's configuration."""

    connect_retry: str = ""
    hold_time: str = ""
    keepalive_interval: str = ""


class Timers(Part, frozen=True, kw_only=True):
    config: TimersConfig = TimersConfig()


class Transport(Part, frozen=True, kw_only=True):
    passive_mode: bool = False
    remote_port: int = 0


class BgpPeerSpec(Part, frozen=True, kw_only=True):
    conf: NeighborConfig = NeighborConfig()
    ebgp_multihop: EbgpMultihop = EbgpMultihop()
    timers: Timers = Timers()
    transport: Transport = Transport()
    graceful_restart: GracefulRestart = GracefulRestart()
    node_selector: LabelSelector | None = None


class BgpPeer(Object, frozen=True, kw_only=True):
    spec: BgpPeerSpec = BgpPeerSpec()


EIPS = Kind(Eip, GROUP, "v1alpha2", "eips", namespaced=False)
BGP_CONFS = Kind(BgpConf, GROUP, "v1alpha2", "bgpconfs", namespaced=False)
BGP_PEERS = Kind(BgpPeer, GROUP, "v1alpha2", "bgppeers", namespaced=False)

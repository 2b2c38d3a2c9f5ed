"""MetalLB's kinds (group metallb.io), with the fields that Bridgehead uses.

The entries are not in `kinds.ALL_KINDS`: only the balancer's parts load this module.

Pure: no I/O, no clock, no randomness. Source: MetalLB's CustomResourceDefinitions, v0.16.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from .kinds import Kind
from .meta import Condition, LabelSelector, Object, Part

GROUP: Final = "metallb.io"


def _named(name: str, default: Any) -> Any:
    """Return a field whose JSON name does not follow from the Python name."""
    return msgspec.field(name=name, default=default)


# --- Pools -----------------------------------------------------------------------------------------------


class ServiceAllocation(Part, frozen=True, kw_only=True):
    priority: int = 0
    namespaces: tuple[str, ...] = ()
    namespace_selectors: tuple[LabelSelector, ...] = ()
    service_selectors: tuple[LabelSelector, ...] = ()


class IPAddressPoolSpec(Part, frozen=True, kw_only=True):
    addresses: tuple[str, ...] = ()
    auto_assign: bool = True
    avoid_buggy_ips: bool = False
    service_allocation: ServiceAllocation | None = None


class IPAddressPoolStatus(Part, frozen=True, kw_only=True):
    """Numbers of addresses. Numbers of IPv6 addresses are capped at 2**63 - 1."""

    assigned_ipv4: int = _named("assignedIPv4", 0)
    assigned_ipv6: int = _named("assignedIPv6", 0)
    available_ipv4: int = _named("availableIPv4", 0)
    available_ipv6: int = _named("availableIPv6", 0)


class IPAddressPool(Object, frozen=True, kw_only=True):
    spec: IPAddressPoolSpec = IPAddressPoolSpec()
    status: IPAddressPoolStatus = IPAddressPoolStatus()


# --- Advertisements --------------------------------------------------------------------------------------


class PreferredNodeSelector(Part, frozen=True, kw_only=True):
    weight: int = 1
    preference: LabelSelector = LabelSelector()


class L2AdvertisementSpec(Part, frozen=True, kw_only=True):
    ip_address_pools: tuple[str, ...] = ()
    ip_address_pool_selectors: tuple[LabelSelector, ...] = ()
    node_selectors: tuple[LabelSelector, ...] = ()
    interfaces: tuple[str, ...] = ()
    service_selectors: tuple[LabelSelector, ...] = ()
    preferred_node_selectors: tuple[PreferredNodeSelector, ...] = ()


class L2Advertisement(Object, frozen=True, kw_only=True):
    spec: L2AdvertisementSpec = L2AdvertisementSpec()


class BGPAdvertisementSpec(Part, frozen=True, kw_only=True):
    aggregation_length: int = 32
    aggregation_length_v6: int = _named("aggregationLengthV6", 128)
    local_pref: int = 0
    communities: tuple[str, ...] = ()
    ip_address_pools: tuple[str, ...] = ()
    ip_address_pool_selectors: tuple[LabelSelector, ...] = ()
    node_selectors: tuple[LabelSelector, ...] = ()
    peers: tuple[str, ...] = ()
    service_selectors: tuple[LabelSelector, ...] = ()


class BGPAdvertisement(Object, frozen=True, kw_only=True):
    spec: BGPAdvertisementSpec = BGPAdvertisementSpec()


class CommunityAlias(Part, frozen=True, kw_only=True):
    name: str = ""
    value: str = ""


class CommunitySpec(Part, frozen=True, kw_only=True):
    communities: tuple[CommunityAlias, ...] = ()


class Community(Object, frozen=True, kw_only=True):
    spec: CommunitySpec = CommunitySpec()


# --- Peers -----------------------------------------------------------------------------------------------


class SecretReference(Part, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""


class BGPPeerSpec(Part, frozen=True, kw_only=True):
    """Times are Go durations such as 90s."""

    my_asn: int = _named("myASN", 0)
    peer_asn: int = _named("peerASN", 0)
    dynamic_asn: str = _named("dynamicASN", "")
    local_asn: int = _named("localASN", 0)
    peer_address: str = ""
    interface: str = ""
    source_address: str = ""
    peer_port: int = 0
    hold_time: str | None = None
    keepalive_time: str | None = None
    connect_time: str | None = None
    router_id: str = ""
    node_selectors: tuple[LabelSelector, ...] = ()
    password: str = ""
    password_secret: SecretReference = SecretReference()
    bfd_profile: str = ""
    enable_graceful_restart: bool = False
    ebgp_multi_hop: bool = False
    vrf: str = ""
    disable_mp: bool = _named("disableMP", False)
    dual_stack_address_family: bool = False


class BGPPeer(Object, frozen=True, kw_only=True):
    spec: BGPPeerSpec = BGPPeerSpec()


class BFDProfileSpec(Part, frozen=True, kw_only=True):
    """Intervals in milliseconds. None: FRR's default."""

    receive_interval: int | None = None
    transmit_interval: int | None = None
    detect_multiplier: int | None = None
    echo_interval: int | None = None
    echo_mode: bool = False
    passive_mode: bool = False
    minimum_ttl: int | None = None


class BFDProfile(Object, frozen=True, kw_only=True):
    spec: BFDProfileSpec = BFDProfileSpec()


# --- What the parts report -------------------------------------------------------------------------------


class InterfaceInfo(Part, frozen=True, kw_only=True):
    name: str = ""


class ServiceL2StatusStatus(Part, frozen=True, kw_only=True):
    node: str = ""
    service_name: str = ""
    service_namespace: str = ""
    interfaces: tuple[InterfaceInfo, ...] = ()


class ServiceL2Status(Object, frozen=True, kw_only=True):
    status: ServiceL2StatusStatus = ServiceL2StatusStatus()


class ServiceBGPStatusStatus(Part, frozen=True, kw_only=True):
    node: str = ""
    service_name: str = ""
    service_namespace: str = ""
    peers: tuple[str, ...] = ()


class ServiceBGPStatus(Object, frozen=True, kw_only=True):
    status: ServiceBGPStatusStatus = ServiceBGPStatusStatus()


class ConfigurationStateStatus(Part, frozen=True, kw_only=True):
    """`result`: Valid, Invalid or Unknown."""

    result: str = ""
    error_summary: str = ""
    conditions: tuple[Condition, ...] = ()


class ConfigurationState(Object, frozen=True, kw_only=True):
    status: ConfigurationStateStatus = ConfigurationStateStatus()


IP_ADDRESS_POOLS = Kind(IPAddressPool, GROUP, "v1beta1", "ipaddresspools")
L2_ADVERTISEMENTS = Kind(L2Advertisement, GROUP, "v1beta1", "l2advertisements")
BGP_ADVERTISEMENTS = Kind(BGPAdvertisement, GROUP, "v1beta1", "bgpadvertisements")
COMMUNITIES = Kind(Community, GROUP, "v1beta1", "communities")
BGP_PEERS = Kind(BGPPeer, GROUP, "v1beta2", "bgppeers")
BFD_PROFILES = Kind(BFDProfile, GROUP, "v1beta1", "bfdprofiles")
SERVICE_L2_STATUSES = Kind(ServiceL2Status, GROUP, "v1beta1", "servicel2statuses")
SERVICE_BGP_STATUSES = Kind(ServiceBGPStatus, GROUP, "v1beta1", "servicebgpstatuses")
CONFIGURATION_STATES = Kind(ConfigurationState, GROUP, "v1beta1", "configurationstates")

"""OpenELB's objects compiled to pools and peers.

Each Eip and BgpPeer is judged alone, as by OpenELB's webhook: one that is not valid is left out.

Pure: no I/O, no clock, no randomness. Source: OpenELB v0.6.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from bridgehead.balancer.compiled_configuration import (
    BgpAdvertisement,
    Layer2Advertisement,
    NodeSelection,
    Peer,
    Pool,
    ServiceSelection,
    VrrpAdvertisement,
)
from bridgehead.balancer.ranges import AddressRange, parse_address, parse_range
from bridgehead.objects.openelb import BgpConf, BgpPeer, Eip
from bridgehead.objects.selectors import Requirement, Selector

from .inputs import ConfigurationObjects, Rejection, about
from .peers import BGP_PORT, check_duplicate
from .pools import Territory, check_reserved, is_fallback
from .selections import compile_selectors, quote

DEFAULT_EIP_ANNOTATION = "eip.openelb.kubesphere.io/is-default-eip"
CONFIGURATION_NAME = "default"  # of the only BgpConf that OpenELB reads


@dataclass
class Acceptance:
    """Pools and peers of valid objects, and why the others do not count."""

    pools: list[Pool] = field(default_factory=list)
    peers: dict[str, Peer] = field(default_factory=dict)
    rejections: list[Rejection] = field(default_factory=list)


def parse_eip_address(text: str) -> AddressRange:
    """Parse an address, a CIDR, an address with a netmask or `first-last`. Raises ValueError."""
    if "/" in text:
        return parse_range(_with_length(text))
    if "-" in text:
        return parse_range(text)
    try:
        address = parse_address(text)
    except ValueError:
        raise ValueError(f"invalid address {quote(text)}") from None
    return AddressRange(address.version, int(address), int(address))


def _with_length(text: str) -> str:
    """Return a CIDR, with the length of the prefix in the place of a netmask."""
    address, _, mask = text.partition("/")
    for length in range(33):
        if ":" not in address and mask == str(ipaddress.IPv4Network((0, length)).netmask):
            return f"{address}/{length}"
    return text


def compile_openelb(
    objects: ConfigurationObjects,
    territory: Territory,
    reserved: Iterable[tuple[AddressRange, str]],
    pools: Collection[str],
    peers: Mapping[str, Peer],
) -> Acceptance:
    """Compile Eips, the oldest first, and peers. `pools`: the names of MetalLB's; `peers`: MetalLB's by name."""
    accepted = Acceptance()
    _compile_peers(objects, accepted, peers)
    reserved = list(reserved)
    names = set(pools)
    has_default = False
    for eip in sorted(objects.eips, key=lambda eip: (eip.metadata.creation_timestamp or "", eip.metadata.name)):
        try:
            pool = _compile_eip(eip, reserved, tuple(accepted.peers))
            if pool.name in names:
                raise ValueError(f"a pool named {quote(pool.name)} exists already")
            overlapping = territory.overlapping(pool)
            if overlapping is not None:
                raise ValueError(
                    f"eip address {eip.spec.address} overlaps with {overlapping.text} of {overlapping.pool}"
                )
            if pool.is_default and has_default:
                raise ValueError("already exists a default EIP")
        except ValueError as error:
            accepted.rejections.append(Rejection(about(eip), f"invalid eip {eip.metadata.name}: {error}"))
            continue
        names.add(pool.name)
        has_default = has_default or pool.is_default
        territory.add(pool, [eip.spec.address])
        accepted.pools.append(pool)
    return accepted


def _compile_eip(eip: Eip, reserved: Iterable[tuple[AddressRange, str]], peers: tuple[str, ...]) -> Pool:
    spec, name = eip.spec, eip.metadata.name
    range_ = parse_eip_address(spec.address)
    check_reserved(range_, spec.address, reserved)
    layer2: tuple[Layer2Advertisement, ...] = ()
    bgp: tuple[BgpAdvertisement, ...] = ()
    vrrp: tuple[VrrpAdvertisement, ...] = ()
    match spec.protocol:
        case "layer2":
            layer2 = (Layer2Advertisement(name, interfaces=(_interface(spec.interface),)),)
        case "vip":
            vrrp = (VrrpAdvertisement(name, _interface(spec.interface)),)
        case "bgp" | "":
            bgp = (BgpAdvertisement(name, peers=peers),) if peers else ()
        case other:
            raise ValueError(f"unknown protocol {quote(other)}")
    return Pool(
        name=name,
        source="openelb",
        ranges=(range_,),
        labels=eip.metadata.labels,
        auto_assign=False,
        services=_selection(spec.priority, spec.namespaces, spec.namespace_selector),
        is_default=eip.metadata.annotations.get(DEFAULT_EIP_ANNOTATION) == "true",
        is_fallback=is_fallback(eip.metadata.annotations),
        is_disabled=spec.disable,
        layer2=layer2,
        bgp=bgp,
        vrrp=vrrp,
    )


def _interface(text: str) -> str:
    if not text:
        raise ValueError("interface is required for protocol layer2 and vip")
    return text


def _selection(priority: int, namespaces: tuple[str, ...], labels: Mapping[str, str]) -> ServiceSelection | None:
    """Return the binding to namespaces; None for an Eip without one, which Services get only by name or default."""
    if not namespaces and not labels:
        return None
    requirements = tuple(Requirement(key, "in", frozenset([value])) for key, value in sorted(labels.items()))
    return ServiceSelection(
        priority=priority,
        namespaces=frozenset(namespaces),
        namespace_selectors=(Selector(requirements),) if requirements else (),
    )


def _compile_peers(objects: ConfigurationObjects, accepted: Acceptance, others: Mapping[str, Peer]) -> None:
    configuration = next((conf for conf in objects.bgp_confs if conf.metadata.name == CONFIGURATION_NAME), None)
    for conf in objects.bgp_confs:
        if conf is not configuration:
            accepted.rejections.append(Rejection(about(conf), f"only the BgpConf {CONFIGURATION_NAME} is read"))
    for obj in objects.openelb_peers:
        name = obj.metadata.name
        try:
            if name in others:
                raise ValueError(f"a peer named {quote(name)} exists already")
            peer = _compile_peer(obj, configuration)
            check_duplicate(peer, (*others.values(), *accepted.peers.values()), objects.nodes)
            accepted.peers[name] = peer
        except ValueError as error:
            accepted.rejections.append(Rejection(about(obj), f"invalid bgppeer {name}: {error}"))


def _compile_peer(obj: BgpPeer, configuration: BgpConf | None) -> Peer:
    spec = obj.spec
    if spec.conf.neighbor_interface or spec.conf.vrf:
        raise ValueError("neighborInterface and vrf are not supported")
    my_asn = spec.conf.local_as or (configuration.spec.as_ if configuration is not None else 0)
    if not my_asn:
        raise ValueError(f"the BgpConf {CONFIGURATION_NAME} has no AS number")
    if not spec.conf.peer_as:
        raise ValueError("conf.peerAs is missing")
    try:
        address = parse_address(spec.conf.neighbor_address)
    except ValueError:
        raise ValueError(f"invalid neighborAddress {quote(spec.conf.neighbor_address)}") from None
    timers = spec.timers.config
    return Peer(
        name=obj.metadata.name,
        my_asn=my_asn,
        peer_asn=spec.conf.peer_as,
        address=address,
        port=spec.transport.remote_port or BGP_PORT,
        hold_time=_seconds(timers.hold_time, "holdTime"),
        keepalive_time=_seconds(timers.keepalive_interval, "keepaliveInterval"),
        connect_time=_seconds(timers.connect_retry, "connectRetry"),
        router_id=configuration.spec.router_id if configuration is not None else "",
        nodes=NodeSelection(
            compile_selectors((spec.node_selector,), "nodeSelector") if spec.node_selector is not None else ()
        ),
        password=spec.conf.auth_password,
        graceful_restart=spec.graceful_restart.enabled
        or (configuration is not None and configuration.spec.graceful_restart.enabled),
        ebgp_multi_hop=spec.ebgp_multihop.enabled,
        listen_port=_listen_port(configuration) if spec.transport.passive_mode else 0,
    )


def _listen_port(configuration: BgpConf | None) -> int:
    """Return the port of GoBGP, which OpenELB runs; no positive one means that it does not listen."""
    port = configuration.spec.listen_port if configuration is not None else 0
    return port if port > 0 else BGP_PORT


def _seconds(text: str, field: str) -> int | None:
    """Parse seconds, as GoBGP writes them: `30` or `30.5`."""
    if not text:
        return None
    whole, _, fraction = text.partition(".")
    if not (whole.isascii() and whole.isdigit() and len(whole) <= 9 and (not fraction or fraction.isdigit())):
        raise ValueError(f"invalid {field} {quote(text)}")
    return int(whole)

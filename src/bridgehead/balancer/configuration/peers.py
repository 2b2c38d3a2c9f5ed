"""BGPPeers and BFDProfiles compiled.

Pure: no I/O, no clock, no randomness. Source: MetalLB, internal/config.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from bridgehead.balancer.compiled_configuration import BfdProfile, NodeSelection, Peer, Pool
from bridgehead.balancer.errors import ConfigurationInvalid
from bridgehead.balancer.ranges import IpAddress, parse_address
from bridgehead.objects.metallb import BFDProfile, BGPPeer, BGPPeerSpec
from bridgehead.objects.times import parse_duration

from .inputs import NodeFacts, about
from .selections import compile_selectors, quote, share_nodes

BGP_PORT = 179
_MINIMUM_HOLD_SECONDS = 3


def compile_bfd_profiles(profiles: Sequence[BFDProfile]) -> dict[str, BfdProfile]:
    """Return the profiles by name. Raises ConfigurationInvalid."""
    compiled = {}
    for obj in profiles:
        spec = obj.spec
        numbers = {}
        for field, what, value, least, most in (
            ("detect_multiplier", "detect multiplier", spec.detect_multiplier, 2, 255),
            ("receive_interval", "receive interval", spec.receive_interval, 10, 60000),
            ("transmit_interval", "transmit interval", spec.transmit_interval, 10, 60000),
            ("minimum_ttl", "minimum ttl", spec.minimum_ttl, 1, 254),
            ("echo_interval", "echo interval", spec.echo_interval, 10, 60000),
        ):
            if value is None:
                continue
            if not least <= value <= most:
                raise ConfigurationInvalid(
                    f"parsing bfd profile {obj.metadata.name}: invalid {what} value: invalid value {value}, must be in"
                    f" {least}-{most} range",
                    about(obj),
                )
            numbers[field] = value
        compiled[obj.metadata.name] = BfdProfile(
            name=obj.metadata.name, echo_mode=spec.echo_mode, passive_mode=spec.passive_mode, **numbers
        )
    return compiled


def compile_peers(
    peers: Sequence[BGPPeer], profiles: Mapping[str, BfdProfile], nodes: Mapping[str, NodeFacts]
) -> dict[str, Peer]:
    """Return the peers by name. Raises ConfigurationInvalid."""
    compiled: dict[str, Peer] = {}
    for obj in peers:
        try:
            peer = _compile_peer(obj)
            check_duplicate(peer, compiled.values(), nodes)
        except ValueError as error:
            raise ConfigurationInvalid(f"parsing peer {obj.metadata.name} {error}", about(obj)) from None
        if peer.bfd_profile and peer.bfd_profile not in profiles:
            raise ConfigurationInvalid(
                f"peer {peer.name} referencing non existing bfd profile {peer.bfd_profile}", about(obj)
            )
        compiled[peer.name] = peer
    return compiled


def check_duplicate(peer: Peer, others: Iterable[Peer], nodes: Mapping[str, NodeFacts]) -> None:
    """Refuse a second session of a node with one address, as MetalLB does with FRR. Raises ValueError.

    A router has one session with each address of its configuration, and BFD one for each pair of addresses.
    """
    for other in others:
        if other.address == peer.address and share_nodes(other.nodes, peer.nodes, nodes):
            raise ValueError(f"is a duplicate: on some nodes peer {other.name} has its address {peer.address}, too")


def _compile_peer(obj: BGPPeer) -> Peer:
    spec = obj.spec
    _check_supported(spec)
    full_name = f"{quote(obj.metadata.namespace)}/{quote(obj.metadata.name)}"
    peer_asn = _peer_asn(spec)
    _check_local_asn(spec, peer_asn)
    if peer_asn == spec.my_asn and spec.ebgp_multi_hop:
        raise ValueError("invalid ebgp-multihop parameter set for an ibgp peer")
    if not spec.peer_address:
        raise ValueError("peer has no Address or Interface specified")
    if spec.password and spec.password_secret.name:
        raise ValueError(f"can not have both password and secret ref set in peer config {full_name}")
    if any(character in spec.password for character in "\n\r"):
        raise ValueError(f"password for peer {full_name} contains invalid characters")
    hold_time, keepalive_time = _timers(spec)
    if spec.router_id:
        _address(spec.router_id, "invalid router ID", must_be_ipv4=True)
    secret = spec.password_secret
    return Peer(
        name=obj.metadata.name,
        # As FRR's "local-as no-prepend replace-as": the peer sees no other AS number than this one.
        my_asn=spec.local_asn or spec.my_asn,
        peer_asn=peer_asn,
        address=_address(spec.peer_address, "invalid BGPPeer address"),
        port=spec.peer_port or BGP_PORT,
        source_address=_address(spec.source_address, "invalid source IP") if spec.source_address else None,
        hold_time=hold_time,
        keepalive_time=keepalive_time,
        connect_time=None if spec.connect_time is None else _seconds(spec.connect_time, "connect time"),
        router_id=spec.router_id,
        nodes=NodeSelection(compile_selectors(spec.node_selectors, "nodeSelectors")),
        password=spec.password,
        password_secret=(secret.namespace or obj.metadata.namespace, secret.name) if secret.name else None,
        bfd_profile=spec.bfd_profile,
        graceful_restart=spec.enable_graceful_restart,
        ebgp_multi_hop=spec.ebgp_multi_hop,
        both_families=spec.dual_stack_address_family,
        disable_mp=spec.disable_mp,
    )


def _check_supported(spec: BGPPeerSpec) -> None:
    for field, value in (("interface", spec.interface), ("vrf", spec.vrf)):
        if value:
            raise ValueError(f"has {field} set, which is not supported")


def _peer_asn(spec: BGPPeerSpec) -> int | Literal["internal", "external"]:
    if spec.my_asn == 0:
        raise ValueError("missing local ASN")
    if spec.peer_asn and spec.dynamic_asn:
        raise ValueError("both peer ASN and dynamicASN specified")
    match spec.dynamic_asn:
        case "internal" | "external" as mode:
            return mode
        case "":
            if spec.peer_asn == 0:
                raise ValueError("missing peer ASN and dynamicASN")
            return spec.peer_asn
    raise ValueError(f"invalid dynamicASN {spec.dynamic_asn}")


def _check_local_asn(spec: BGPPeerSpec, peer_asn: int | str) -> None:
    """Refuse what FRR refuses."""
    if spec.local_asn and peer_asn in (spec.my_asn, "internal"):
        raise ValueError("has localASN set, which is for external peers only")
    if spec.local_asn and peer_asn == spec.local_asn:
        raise ValueError("has the peer's AS number as localASN")


def _timers(spec: BGPPeerSpec) -> tuple[int | None, int | None]:
    """Return hold and keepalive time in seconds; one of them follows from the other."""
    if spec.hold_time is None and spec.keepalive_time is None:
        return None, None
    hold = None if spec.hold_time is None else _seconds(spec.hold_time, "hold time")
    keepalive = None if spec.keepalive_time is None else _seconds(spec.keepalive_time, "keepalive time")
    if hold is None:
        hold = 3 * (keepalive or 0)
    if keepalive is None:
        keepalive = hold // 3
    if 0 < hold < _MINIMUM_HOLD_SECONDS:
        raise ValueError(f'invalid BGPPeer timers: invalid hold time "{hold}s": must be 0 or >=3s')
    if keepalive > hold:
        raise ValueError(
            f'invalid BGPPeer timers: invalid keepaliveTime "{keepalive}s", must be lower than holdTime "{hold}s"'
        )
    return hold, keepalive


def _seconds(text: str, what: str) -> int:
    try:
        return int(parse_duration(text))
    except (ValueError, OverflowError):
        raise ValueError(f"invalid {what} {quote(text)}") from None


def _address(text: str, problem: str, *, must_be_ipv4: bool = False) -> IpAddress:
    try:
        address = parse_address(text)
    except ValueError:
        raise ValueError(f"{problem} {quote(text)}") from None
    if must_be_ipv4 and address.version != 4:
        raise ValueError(f"{problem} {quote(text)}")
    return address


def check_bfd_echo(pools: Mapping[str, Pool], peers: Mapping[str, Peer], profiles: Mapping[str, BfdProfile]) -> None:
    """Refuse BFD's echo mode for peers to which IPv6 pools are announced. Raises ConfigurationInvalid."""
    with_echo = {name for name, peer in peers.items() if peer.bfd_profile and profiles[peer.bfd_profile].echo_mode}
    if not with_echo:
        return
    for pool in pools.values():
        if not any(range_.version == 6 for range_ in pool.ranges):
            continue
        for advertisement in pool.bgp:
            for name in sorted(with_echo):
                if not advertisement.peers or name in advertisement.peers:
                    raise ConfigurationInvalid(
                        f"pool {pool.name} has bgpadvertisement {advertisement.name} which references peer {name} which"
                        " has bfd echo enabled, which is not possible"
                    )

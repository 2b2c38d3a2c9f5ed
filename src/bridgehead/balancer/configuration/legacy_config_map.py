"""The ConfigMap `config` of MetalLB before 0.13, translated to the objects that replaced it.

Pure: no I/O, no clock, no randomness. Source: MetalLB v0.12, its manual and `configmaptocrs`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from bridgehead.balancer.errors import ConfigurationInvalid
from bridgehead.objects import metallb
from bridgehead.objects.core import ConfigMap
from bridgehead.objects.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta

from .inputs import ConfigurationObjects, about

NAME = "config"
_KEY = "config"
HINT = (
    "the ConfigMap format is that of MetalLB before 0.13; it is read, but IPAddressPool, L2Advertisement, BGPPeer and"
    " BGPAdvertisement objects replace it"
)


class _Section(msgspec.Struct, frozen=True, kw_only=True, rename=lambda name: name.replace("_", "-")):
    """Base of the parts of the file, whose names have hyphens."""


class _Expression(_Section, frozen=True, kw_only=True):
    key: str
    operator: str
    values: list[str] = []


class _NodeSelector(_Section, frozen=True, kw_only=True):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Expression] | None = None


class _Peer(_Section, frozen=True, kw_only=True):
    name: str = ""
    my_asn: int = 0
    peer_asn: int = 0
    peer_address: str = ""
    peer_port: int = 0
    source_address: str = ""
    hold_time: str | None = None
    keepalive_time: str | None = None
    router_id: str = ""
    node_selectors: list[_NodeSelector] | None = None
    password: str = ""
    bfd_profile: str = ""
    ebgp_multihop: bool = False


class _BgpAdvertisement(_Section, frozen=True, kw_only=True):
    aggregation_length: int | None = None
    aggregation_length_v6: int | None = None
    localpref: int | None = None
    communities: list[str] | None = None


class _AddressPool(_Section, frozen=True, kw_only=True):
    name: str = ""
    protocol: str = ""
    addresses: list[str] | None = None
    auto_assign: bool = True
    avoid_buggy_ips: bool = False
    bgp_advertisements: list[_BgpAdvertisement] | None = None


class _BfdProfile(_Section, frozen=True, kw_only=True):
    name: str = ""
    receive_interval: int | None = None
    transmit_interval: int | None = None
    detect_multiplier: int | None = None
    echo_interval: int | None = None
    echo_mode: bool = False
    passive_mode: bool = False
    minimum_ttl: int | None = None


class _File(_Section, frozen=True, kw_only=True):
    peers: list[_Peer] | None = None
    address_pools: list[_AddressPool] | None = None
    bgp_communities: dict[str, str] | None = None
    bfd_profiles: list[_BfdProfile] | None = None


def with_config_map(objects: ConfigurationObjects) -> ConfigurationObjects:
    """Return the objects with those of the ConfigMap added, and without it. Raises ConfigurationInvalid."""
    config_map = objects.config_map
    if config_map is None or _KEY not in config_map.data:
        return replace(objects, config_map=None)
    from bridgehead.yaml_loader import load_texts  # only this format needs the parser

    try:
        # As sigs.k8s.io/yaml, which MetalLB used: the field decides whether 1234 is a number or a text.
        file = msgspec.convert(load_texts(config_map.data[_KEY]) or {}, _File, strict=False)
    except (ValueError, RecursionError) as error:
        line = " ".join(str(error).split())
        raise ConfigurationInvalid(f"parsing the ConfigMap {NAME}: {line}", about(config_map)) from None
    return _translate(replace(objects, config_map=None), config_map, file)


def _translate(objects: ConfigurationObjects, config_map: ConfigMap, file: _File) -> ConfigurationObjects:
    def meta(name: str) -> ObjectMeta:
        return ObjectMeta(name=name, namespace=objects.namespace)

    pools, layer2, bgp = [], [], []
    for number, pool in enumerate(file.address_pools or (), start=1):
        name = pool.name
        if not name:
            raise ConfigurationInvalid(f"parsing address pool #{number}: missing pool name", about(config_map))
        pools.append(
            metallb.IPAddressPool(
                metadata=meta(name),
                spec=metallb.IPAddressPoolSpec(
                    addresses=tuple(pool.addresses or ()),
                    auto_assign=pool.auto_assign,
                    avoid_buggy_ips=pool.avoid_buggy_ips,
                ),
            )
        )
        match pool.protocol:
            case "layer2":
                spec = metallb.L2AdvertisementSpec(ip_address_pools=(name,))
                layer2.append(metallb.L2Advertisement(metadata=meta(f"l2advertisement{number}"), spec=spec))
            case "bgp":
                bgp += [
                    metallb.BGPAdvertisement(metadata=meta(f"bgpadvertisement{number}-{index}"), spec=_spec(name, old))
                    for index, old in enumerate(pool.bgp_advertisements or [_BgpAdvertisement()], start=1)
                ]
            case other:
                raise ConfigurationInvalid(
                    f'parsing address pool {name}: unknown protocol "{other}"', about(config_map)
                )
    aliases = tuple(metallb.CommunityAlias(name=n, value=v) for n, v in (file.bgp_communities or {}).items())
    community = metallb.Community(metadata=meta("communities"), spec=metallb.CommunitySpec(communities=aliases))
    return replace(
        objects,
        pools=(*objects.pools, *pools),
        layer2_advertisements=(*objects.layer2_advertisements, *layer2),
        bgp_advertisements=(*objects.bgp_advertisements, *bgp),
        communities=(*objects.communities, community),
        peers=(*objects.peers, *(_peer(meta, number, old) for number, old in enumerate(file.peers or (), start=1))),
        bfd_profiles=(*objects.bfd_profiles, *(_profile(meta, old) for old in file.bfd_profiles or ())),
    )


def _spec(pool: str, old: _BgpAdvertisement) -> metallb.BGPAdvertisementSpec:
    return metallb.BGPAdvertisementSpec(
        ip_address_pools=(pool,),
        aggregation_length=32 if old.aggregation_length is None else old.aggregation_length,
        aggregation_length_v6=128 if old.aggregation_length_v6 is None else old.aggregation_length_v6,
        local_pref=old.localpref or 0,
        communities=tuple(old.communities or ()),
    )


def _peer(meta: Any, number: int, old: _Peer) -> metallb.BGPPeer:
    return metallb.BGPPeer(
        metadata=meta(old.name or f"peer{number}"),
        spec=metallb.BGPPeerSpec(
            my_asn=old.my_asn,
            peer_asn=old.peer_asn,
            peer_address=old.peer_address,
            peer_port=old.peer_port,
            source_address=old.source_address,
            hold_time=old.hold_time,
            keepalive_time=old.keepalive_time,
            router_id=old.router_id,
            node_selectors=tuple(_selector(selector) for selector in old.node_selectors or ()),
            password=old.password,
            bfd_profile=old.bfd_profile,
            ebgp_multi_hop=old.ebgp_multihop,
        ),
    )


def _selector(old: _NodeSelector) -> LabelSelector:
    return LabelSelector(
        match_labels=old.match_labels or {},
        match_expressions=tuple(
            LabelSelectorRequirement(key=e.key, operator=e.operator, values=tuple(e.values))
            for e in old.match_expressions or ()
        ),
    )


def _profile(meta: Any, old: _BfdProfile) -> metallb.BFDProfile:
    return metallb.BFDProfile(
        metadata=meta(old.name),
        spec=metallb.BFDProfileSpec(
            receive_interval=old.receive_interval,
            transmit_interval=old.transmit_interval,
            detect_multiplier=old.detect_multiplier,
            echo_interval=old.echo_interval,
            echo_mode=old.echo_mode,
            passive_mode=old.passive_mode,
            minimum_ttl=old.minimum_ttl,
        ),
    )

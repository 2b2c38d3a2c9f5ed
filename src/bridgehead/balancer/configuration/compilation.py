"""Compilation of all objects to a configuration. Called by the controller and by every speaker.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from bridgehead.balancer.compiled_configuration import Configuration, Peer, Pool
from bridgehead.balancer.errors import ConfigurationInvalid
from bridgehead.objects.meta import Object

from .advertisements import attach_bgp, attach_layer2
from .communities import compile_aliases
from .eips import compile_openelb
from .inputs import ConfigurationObjects, Rejection, about
from .legacy_config_map import HINT, with_config_map
from .peers import check_bfd_echo, compile_bfd_profiles, compile_peers
from .pools import Territory, compile_pool, reserved_ranges
from .selections import quote

T = TypeVar("T", bound=Object)


@dataclass(frozen=True)
class Compiled:
    """A valid configuration, and warnings about objects that do not count or are outdated."""

    configuration: Configuration
    rejections: tuple[Rejection, ...] = ()


def compile_configuration(objects: ConfigurationObjects) -> Compiled:
    """Compile the objects. The order in which they are given does not matter.

    MetalLB's objects are judged as a whole: raises ConfigurationInvalid, and no other exception, if one of them is not
    valid. OpenELB's are judged one by one.
    """
    rejections: list[Rejection] = []
    config_map = objects.config_map
    objects = _own_namespace(objects, rejections)
    objects = with_config_map(objects)
    if config_map is not None:
        rejections.append(Rejection(about(config_map), HINT, "DeprecatedConfiguration"))
    try:
        territory = Territory()
        reserved = reserved_ranges(objects)
        profiles = compile_bfd_profiles(objects.bfd_profiles)
        peers = compile_peers(objects.peers, profiles, objects.nodes)
        pools = _compile_pools(objects, territory)
        attach_layer2(pools, objects.layer2_advertisements)
        attach_bgp(pools, objects.bgp_advertisements, compile_aliases(objects.communities), objects.nodes)
        check_bfd_echo(pools, peers, profiles)
    except ConfigurationInvalid as error:
        if error.about is not None and not error.about.uid and config_map is not None:
            raise ConfigurationInvalid(str(error), about(config_map)) from None  # an object of the ConfigMap
        raise
    rejections += _unknown_peers(objects, peers)
    openelb = compile_openelb(objects, territory, reserved, pools, peers)
    rejections += openelb.rejections
    if openelb.peers:
        pools = {name: _only_peers(pool, tuple(peers)) for name, pool in pools.items()}
    return Compiled(
        Configuration((*pools.values(), *openelb.pools), {**peers, **openelb.peers}, profiles), tuple(rejections)
    )


def compile_pools(objects: ConfigurationObjects) -> tuple[Pool, ...]:
    """Compile the pools alone, without advertisements. Raises ConfigurationInvalid.

    They are what the controller needs: as with MetalLB's, an advertisement or a peer that is not valid keeps no Service
    from getting an address.
    """
    alone = replace(_without_bgp(objects), layer2_advertisements=())
    return compile_configuration(alone).configuration.pools


def compile_for_start(objects: ConfigurationObjects) -> Configuration:
    """Return what a speaker announces that begins while the objects are not valid, and so knows no last valid ones.

    Layer 2 works if it is valid without MetalLB's BGP objects; else nothing is announced.
    """
    try:
        return compile_configuration(_without_bgp(objects)).configuration
    except ConfigurationInvalid:
        return Configuration()


def _without_bgp(objects: ConfigurationObjects) -> ConfigurationObjects:
    return replace(objects, bgp_advertisements=(), peers=(), bfd_profiles=(), communities=())


def _compile_pools(objects: ConfigurationObjects, territory: Territory) -> dict[str, Pool]:
    reserved = reserved_ranges(objects)
    pools: dict[str, Pool] = {}
    for obj in objects.pools:
        pool = compile_pool(obj, reserved)
        if pool.name in pools:
            raise ConfigurationInvalid(f"duplicate definition of pool {quote(pool.name)}", about(obj))
        overlapping = territory.overlapping(pool)
        if overlapping is not None:
            raise ConfigurationInvalid(
                f"CIDR {quote(obj.spec.addresses[overlapping.number])} in pool {quote(pool.name)} overlaps with already"
                f" defined CIDR {quote(overlapping.text)}",
                about(obj),
            )
        territory.add(pool, obj.spec.addresses)
        pools[pool.name] = pool
    return pools


def _own_namespace(objects: ConfigurationObjects, rejections: list[Rejection]) -> ConfigurationObjects:
    """Leave out objects of other namespaces and bring the rest into an order of their own."""

    def own(all_objects: Iterable[T]) -> tuple[T, ...]:
        found = []
        for obj in sorted(all_objects, key=lambda obj: (obj.metadata.creation_timestamp or "", obj.key)):
            if obj.metadata.namespace == objects.namespace:
                found.append(obj)
            else:
                message = f"resource must be created in {objects.namespace} namespace"
                rejections.append(Rejection(about(obj), message))
        return tuple(found)

    return replace(
        objects,
        pools=own(objects.pools),
        layer2_advertisements=own(objects.layer2_advertisements),
        bgp_advertisements=own(objects.bgp_advertisements),
        peers=own(objects.peers),
        bfd_profiles=own(objects.bfd_profiles),
        communities=own(objects.communities),
        openelb_peers=tuple(sorted(objects.openelb_peers, key=lambda obj: obj.key)),
    )


def _unknown_peers(objects: ConfigurationObjects, peers: dict[str, Peer]) -> list[Rejection]:
    return [
        Rejection(about(obj), f"bgpadvertisement {obj.metadata.name} names the peer {name}, which does not exist")
        for obj in objects.bgp_advertisements
        for name in obj.spec.peers
        if name not in peers
    ]


def _only_peers(pool: Pool, peers: tuple[str, ...]) -> Pool:
    """Name MetalLB's peers in advertisements to all peers, since OpenELB's peers are for Eips only."""
    bgp = (advertisement if advertisement.peers else replace(advertisement, peers=peers) for advertisement in pool.bgp)
    return replace(pool, bgp=tuple(bgp))

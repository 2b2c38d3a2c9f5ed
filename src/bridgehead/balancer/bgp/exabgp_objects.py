"""ExaBGP's objects, made of a session's settings and of routes. Only the ExaBGP process imports ExaBGP."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .exabgp import GRACEFUL_RESTART_SECONDS, Attributes, SessionSettings

if TYPE_CHECKING:
    from .announced_routes import Prefix

_FAMILIES = {4: 1, 6: 2}  # address family numbers (IANA)
_UNICAST = 1


def family_of(version: int) -> tuple[Any, Any]:
    """Return the unicast family of an IP version as ExaBGP's AFI and SAFI."""
    from exabgp.protocol.family import AFI, SAFI

    return AFI.create(_FAMILIES[version]), SAFI.create(_UNICAST)


def make_neighbor(settings: SessionSettings) -> Any:
    """Return ExaBGP's description of a session. Raises ValueError."""
    from exabgp.bgp.message.open.asn import ASN
    from exabgp.bgp.message.open.holdtime import HoldTime
    from exabgp.bgp.message.open.routerid import RouterID
    from exabgp.bgp.neighbor import Neighbor

    neighbor = Neighbor()
    neighbor.api = defaultdict(bool)  # nothing is reported to ExaBGP's own programs
    neighbor.update(
        {
            "router-id": RouterID(settings.router_id),
            "local-as": ASN(settings.my_asn),
            "peer-as": ASN(settings.peer_asn) if settings.peer_asn else None,
            "hold-time": HoldTime(settings.hold_time),
            "connect": settings.port,
            "adj-rib-in": False,  # received routes are not even decoded
        }
    )
    neighbor["capability"]["graceful-restart"] = settings.graceful_restart and GRACEFUL_RESTART_SECONDS
    for version in sorted(settings.next_hops):
        neighbor.add_family(family_of(version))
    return neighbor


def make_open(neighbor: Any, *, has_restarted: bool) -> Any:
    """Return the OPEN message of a session. `has_restarted`: the restart state (RFC 4724).

    ExaBGP would offer route refresh only together with its enhanced form (RFC 7313), which this speaker lacks.
    """
    from exabgp.bgp.message import Open
    from exabgp.bgp.message.open import Version
    from exabgp.bgp.message.open.capability import Capabilities
    from exabgp.bgp.message.open.capability.capability import Capability
    from exabgp.bgp.message.open.capability.refresh import RouteRefresh

    own_asn = neighbor["local-as"]
    capabilities = Capabilities().new(neighbor, has_restarted, local_as=own_asn)
    capabilities[Capability.CODE.ROUTE_REFRESH] = RouteRefresh()
    return Open(Version(4), own_asn, neighbor["hold-time"], neighbor["router-id"], capabilities)


def refreshed_version(message: Any, negotiated: Any) -> int:
    """Return the IP version whose routes the peer asks for again (RFC 2918); 0 if the message does not do that."""
    from exabgp.bgp.message.refresh import RouteRefresh

    if message.TYPE != RouteRefresh.TYPE or message.reserved != RouteRefresh.request:
        return 0
    asked = (message.afi, message.safi)
    return next((version for version in carried_versions(negotiated) if family_of(version) == asked), 0)


def as_number(open_message: Any) -> int:
    """Return the AS number in an OPEN message, which a capability has if it is longer than two bytes (RFC 6793)."""
    from exabgp.bgp.message.open.capability.capability import Capability

    return int(open_message.capabilities.get(Capability.CODE.FOUR_BYTES_ASN, open_message.asn))


def assume_ipv4(negotiated: Any) -> None:
    """Let a peer have IPv4 routes if it does not list the families that it takes (RFC 4760, 8; RFC 4271)."""
    from exabgp.bgp.message.open.capability.capability import Capability

    lists_families = negotiated.received_open.capabilities.announced(Capability.CODE.MULTIPROTOCOL)
    ipv4 = family_of(4)
    if not lists_families and ipv4 in negotiated.neighbor.families():
        negotiated.families.append(ipv4)


def carried_versions(negotiated: Any) -> tuple[int, ...]:
    """Return the IP versions whose routes both ends of a session take."""
    return tuple(version for version in _FAMILIES if family_of(version) in negotiated.families)


def make_updates(routes: dict[Prefix, Attributes | None]) -> Iterator[Any]:
    """Yield ExaBGP's UPDATE messages: one for all IPv4 routes with the same attributes, as ExaBGP groups them."""
    from exabgp.bgp.message import Update

    grouped: dict[object, list[Prefix]] = {}
    for prefix, attributes in routes.items():
        grouped.setdefault(attributes if prefix.version == 4 else prefix, []).append(prefix)
    for prefixes in grouped.values():
        attributes = routes[prefixes[0]]
        yield Update([_make_nlri(prefix, attributes) for prefix in prefixes], _make_attributes(attributes))


def _make_nlri(prefix: Prefix, attributes: Attributes | None) -> Any:
    from exabgp.bgp.message import Action
    from exabgp.bgp.message.update.nlri.cidr import CIDR
    from exabgp.bgp.message.update.nlri.inet import INET
    from exabgp.protocol.ip import IP

    action = Action.WITHDRAW if attributes is None else Action.ANNOUNCE
    nlri = INET(*family_of(prefix.version), action)
    nlri.cidr = CIDR(prefix.network_address.packed, prefix.prefixlen)
    if attributes is not None:
        nlri.nexthop = IP.create(attributes.next_hop)
    return nlri


def _make_attributes(attributes: Attributes | None) -> Any:
    from exabgp.bgp.message.update.attribute import Attributes as ExaBgpAttributes
    from exabgp.bgp.message.update.attribute import LocalPreference, NextHop
    from exabgp.bgp.message.update.attribute.community import (
        Communities,
        Community,
        LargeCommunities,
        LargeCommunity,
    )

    made = ExaBgpAttributes()
    if attributes is None:
        return made
    made.add(NextHop(attributes.next_hop))
    if attributes.local_preference:
        made.add(LocalPreference(attributes.local_preference))
    ordinary = [Community(struct.pack("!HH", *found)) for found in attributes.communities if len(found) == 2]
    large = [LargeCommunity(struct.pack("!LLL", *found)) for found in attributes.communities if len(found) == 3]
    if ordinary:
        made.add(Communities(ordinary))
    if large:
        made.add(LargeCommunities(large))
    return made

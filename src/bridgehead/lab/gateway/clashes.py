"""Reasons why a machine cannot have routes to a lab's networks: what it would lose by them.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from bridgehead.lab.addressing import Ranges
from bridgehead.lab.range_choice import OPTION_OF, Network, is_default_route
from bridgehead.network.rtnetlink_listing import LinkRecord, RouteRecord

from .addressing import MACHINE_LINK_PREFIX, networks_of

_NAMES: Final = ("network", "pod range", "Service range")  # of `networks_of`
_NOT_ROUTED: Final = frozenset(("broadcast", "anycast", "multicast"))


def find_clash(
    families: Sequence[Ranges],
    links: Sequence[LinkRecord],
    routes: Sequence[RouteRecord],
    name_servers: Iterable[str],
) -> str:
    """Return why the machine needs an address of these ranges itself, and the option that helps; "" for no reason.

    Every route but the default one counts, also a wider one: the machine would lose a part of what it leads to.
    """
    servers = list(name_servers)
    for ranges in families:
        for text, what, option in zip(networks_of(ranges), _NAMES, OPTION_OF.values(), strict=True):
            network = ipaddress.ip_network(text)
            reason = next(_reasons(network, links, routes, servers), "")
            if reason:
                return f"this machine has {reason}, and the lab's {what} is {text}; {option} chooses another"
    return ""


def _reasons(
    network: Network, links: Sequence[LinkRecord], routes: Sequence[RouteRecord], name_servers: Sequence[str]
) -> Iterator[str]:
    for link in links:
        for address in link.addresses:
            if ipaddress.ip_interface(address).ip in network:
                yield f"the address {address.partition('/')[0]} ({link.name})"
    for server in name_servers:
        if ipaddress.ip_address(server) in network:
            yield f"the name server {server} (/etc/resolv.conf)"
    for route in routes:
        if route.family != network.version or route.kind in _NOT_ROUTED:
            continue
        if route.via and ipaddress.ip_address(route.via) in network:  # False for the other IP version
            yield f"the router {route.via} ({route.device}) of its route to {route.destination}"
        if not is_default_route(route.destination) and ipaddress.ip_network(route.destination).overlaps(network):
            yield f"a route to {route.destination}{_describe_device(route.device)}"


def _describe_device(device: str) -> str:
    if device.startswith(MACHINE_LINK_PREFIX):
        return f" through {device}, the link of another lab"
    return f" through {device}" if device else ""


def taken_networks(links: Iterable[LinkRecord], routes: Iterable[RouteRecord]) -> list[Network]:
    """Return the machine's addresses, their networks, and those that it has routes to."""
    own = [ipaddress.ip_interface(each) for link in links for each in link.addresses]
    found: list[Network] = [network for each in own for network in (ipaddress.ip_network(each.ip), each.network)]
    found += [
        ipaddress.ip_network(route.destination)
        for route in routes
        if not is_default_route(route.destination) and route.kind not in _NOT_ROUTED
    ]
    return found

"""Settings of sessions and routes as JSON, between a speaker and its ExaBGP process.

Pure: no I/O, no clock, no randomness. Imports little: the ExaBGP process imports it, too.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from bridgehead.balancer.ranges import IpAddress

    from .announced_routes import Prefix

HOLD_SECONDS = 90  # MetalLB's default
GRACEFUL_RESTART_SECONDS = 120  # FRR's default
_LONGEST_PASSWORD = 80  # TCP_MD5SIG_MAXKEYLEN


class SessionSettings(NamedTuple):
    """All that a session is configured by. `peer_asn` 0: any other than `my_asn`.

    `keepalive_time` 0: a third of the hold time. `ttl` 0: the kernel's default. `next_hops`: this node's address in
    each IP family whose routes the session has. `listen_port` 0: this end connects; else the peer has to.
    """

    local_address: IpAddress
    peer_address: IpAddress
    port: int
    my_asn: int
    peer_asn: int
    router_id: str
    hold_time: int = HOLD_SECONDS
    keepalive_time: int = 0
    password: str = ""
    ttl: int = 0
    graceful_restart: bool = False
    next_hops: Mapping[int, str] = {}
    listen_port: int = 0


class Attributes(NamedTuple):
    """Attributes of a route. `local_preference` 0: the default. `communities`: (a, b), or large (a, b, c), sorted."""

    next_hop: str
    local_preference: int = 0
    communities: tuple[tuple[int, ...], ...] = ()


def why_refused(settings: SessionSettings) -> str:
    """Return why there cannot be such a session, or ""."""
    if settings.local_address.version != settings.peer_address.version:
        return f"source address {settings.local_address} and {settings.peer_address} are of different families"
    if len(settings.password.encode()) > _LONGEST_PASSWORD:
        return f"the password is longer than {_LONGEST_PASSWORD} bytes"
    return ""


def render_settings(settings: SessionSettings) -> str:
    """Return settings as text."""
    addresses = {"local_address": str(settings.local_address), "peer_address": str(settings.peer_address)}
    return json.dumps({**settings._asdict(), **addresses})


def parse_settings(text: str) -> SessionSettings:
    """Parse what `render_settings` returned. Raises ValueError."""
    found = json.loads(text)
    addresses = {name: ipaddress.ip_address(found[name]) for name in ("local_address", "peer_address")}
    next_hops = {int(version): address for version, address in found["next_hops"].items()}
    return SessionSettings(**{**found, **addresses, "next_hops": next_hops})


def render_route(prefix: Prefix, attributes: Attributes | None) -> str:
    """Return a route as text. `attributes` None: its withdrawal."""
    return json.dumps([str(prefix), attributes], separators=(",", ":"))


def parse_route(text: str) -> tuple[Prefix, Attributes | None]:
    """Parse what `render_route` returned. Raises ValueError."""
    prefix, found = json.loads(text)
    if found is None:
        return ipaddress.ip_network(prefix), None
    next_hop, local_preference, communities = found
    return ipaddress.ip_network(prefix), Attributes(next_hop, local_preference, tuple(map(tuple, communities)))


ENVIRONMENT = {
    "exabgp_log_destination": "stderr",
    "exabgp_log_level": "ERROR",
    "EXABGP_ENVFILE": "/dev/null",  # not the machine's
}


def router_id_of(local_address: IpAddress, node_name: str) -> str:
    """Return a router id for a peer that sets none: the IPv4 address, or a number that the node's name gives."""
    if local_address.version == 4:
        return str(local_address)
    number = 0
    for byte in node_name.encode():
        number = (number * 31 + byte) & 0xFFFFFFFF
    return str(ipaddress.IPv4Address(number or 1))

"""A session's configuration and its routes as ExaBGP's text. Source: ExaBGP 5.0, configuration and text API.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from typing import NamedTuple

from ..ranges import IpAddress
from .routes import Prefix, Route

HOLD_SECONDS = 90  # MetalLB's default
GRACEFUL_RESTART_SECONDS = 120  # FRR's default
_LONGEST_PASSWORD = 80  # TCP_MD5SIG_MAXKEYLEN


class SessionSettings(NamedTuple):
    """All that a session is configured by. `peer_asn` 0: any other than `my_asn`.

    `keepalive_time` 0: a third of the hold time. `ttl` 0: the kernel's default. `next_hops`: this node's address in
    each IP family whose routes the session has.
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


def why_refused(settings: SessionSettings) -> str:
    """Return why ExaBGP cannot have such a session, or ""."""
    if settings.local_address.version != settings.peer_address.version:
        return f"source address {settings.local_address} and {settings.peer_address} are of different families"
    if len(settings.password.encode()) > _LONGEST_PASSWORD:
        return f"the password is longer than {_LONGEST_PASSWORD} bytes"
    return ""


def render_configuration(settings: SessionSettings) -> str:
    """Return ExaBGP's configuration of this one session."""
    options: dict[str, object] = {
        "router-id": settings.router_id,
        "local-address": settings.local_address,
        "local-as": settings.my_asn,
        "peer-as": settings.peer_asn or "auto",
        "hold-time": settings.hold_time,
        "connect": settings.port,
        # Routes come after the session is up, and the end-of-RIB marker after them. Nothing is kept over a session's
        # end, so that nothing comes back that was withdrawn in the meantime.
        "manual-eor": "true",
        "adj-rib-in": "false",
        "adj-rib-out": "false",
    }
    if settings.ttl:
        options["outgoing-ttl"] = settings.ttl
    if settings.password:
        # Base64, since the configuration has no escapes.
        options["md5-password"] = base64.b64encode(settings.password.encode()).decode()
        options["md5-base64"] = "true"
    restart = GRACEFUL_RESTART_SECONDS if settings.graceful_restart else "disable"
    lines = [
        f"neighbor {settings.peer_address} {{",
        *(f"    {name} {value};" for name, value in options.items()),
        f"    capability {{ asn4 enable; route-refresh disable; graceful-restart {restart}; }}",
        f"    family {{ {' '.join(f'ipv{version} unicast;' for version in sorted(settings.next_hops))} }}",
        "}",
    ]
    return "\n".join(lines) + "\n"


ENVIRONMENT = {
    "exabgp_log_destination": "stderr",
    "exabgp_log_level": "ERROR",
    "EXABGP_ENVFILE": "/dev/null",  # not the machine's
}


def announce(route: Route, next_hop: str) -> str:
    """Return the text that announces or changes a route."""
    attributes = [f"announce route {route.prefix} next-hop {next_hop}"]
    if route.local_preference:
        attributes.append(f"local-preference {route.local_preference}")
    ordinary = sorted(community for community in route.communities if len(community) == 2)
    large = sorted(community for community in route.communities if len(community) == 3)
    for name, communities in (("community", ordinary), ("large-community", large)):
        if communities:
            attributes.append(f"{name} [ {' '.join(':'.join(map(str, numbers)) for numbers in communities)} ]")
    return " ".join(attributes)


def withdraw(prefix: Prefix) -> str:
    """Return the text that withdraws a route."""
    return f"withdraw route {prefix}"


def router_id_of(local_address: IpAddress, node_name: str) -> str:
    """Return a router id for a peer that sets none: the IPv4 address, or a number that the node's name gives."""
    if local_address.version == 4:
        return str(local_address)
    number = 0
    for byte in node_name.encode():
        number = (number * 31 + byte) & 0xFFFFFFFF
    return str(ipaddress.IPv4Address(number or 1))

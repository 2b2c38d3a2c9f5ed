"""Interfaces as OpenELB's Eips name them: by name, or by an address that is reached through them."""

from __future__ import annotations

import socket

from bridgehead.network.host_paths import find_path

_CAN_REACH = "can_reach:"


def find_link(interface: str) -> str:
    """Return the link of an advertisement: its name, or the one to ADDRESS of `can_reach:ADDRESS`; "" if none."""
    try:
        if interface.startswith(_CAN_REACH):
            path = find_path(interface.removeprefix(_CAN_REACH))
            return socket.if_indextoname(path.link) if path is not None else ""
        socket.if_nametoindex(interface)
    except (OSError, ValueError):
        return ""
    return interface


def link_names(interfaces: frozenset[str]) -> frozenset[str]:
    """Return the names of links; what leads to no link now stays as it is, and no link has such a name."""
    names = frozenset(find_link(interface) or interface for interface in interfaces)
    return interfaces if names == interfaces else names  # one value for all addresses

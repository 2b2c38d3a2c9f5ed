"""The networks that the machine is in: those of its addresses, and those to which it has a route."""

from __future__ import annotations

import contextlib
import ipaddress

from bridgehead.network.rtnetlink_listing import list_links, list_routes

from .range_choice import Occupied, is_default_route

_MOST_ROUTES = 10_000  # a machine with a table of the internet is in none of a lab's ranges by default


def read_networks() -> list[Occupied]:
    """Return the networks of the current network namespace, without the default route; those that can be read."""
    found = []
    with contextlib.suppress(OSError):
        for link in list_links():
            for address in link.addresses:
                network = ipaddress.ip_interface(address).network
                found.append(Occupied(network, f"this machine has {address} at {link.name}"))
    with contextlib.suppress(OSError):
        for route in list_routes(_MOST_ROUTES)[0]:
            if route.table == "main" and not is_default_route(route.destination):
                via = route.device or route.via or route.kind
                text = f"this machine has a route to {route.destination} ({via})"
                found.append(Occupied(ipaddress.ip_network(route.destination), text))
    return found

"""Links, addresses, routes and rules of one network namespace, by their names.

For what is done once, when a lab's network is built. Operations whose result exists already succeed. Everything raises
OSError.
"""

from __future__ import annotations

import errno
import socket

from . import rtnetlink_requests as requests
from .closable import Closable
from .inet import address_family
from .netlink_socket import NetlinkSocket, Request
from .uapi.rtnetlink import RT_TABLE_MAIN

_TABLE_RULE_PRIORITY = 90
_RULE_PRIORITY = 100  # before the routing tables (32766), after the local table (0)


class Links(Closable):
    """The links of the network namespace in which it was made, whatever namespace the process enters later."""

    def __init__(self) -> None:
        self._netlink = NetlinkSocket(socket.NETLINK_ROUTE)

    def close(self) -> None:
        self._netlink.close()

    def index(self, name: str) -> int | None:
        """Return the index of a link, None if there is none of that name."""
        answer = self._netlink.ask(requests.find_link(name))
        return None if answer is None else requests.link_index(answer)

    def add_bridge(self, name: str, *, mtu: int = 1500) -> None:
        # No forwarding delay: a lab has no loop of bridges, and the first packet must pass.
        self._send(requests.add_bridge(name, mtu))

    def add_veth(
        self, name: str, *, peer: str, peer_namespace: int, mtu: int = 1500, bridge: str | None = None
    ) -> None:
        """Make a pair: `name` here (up), `peer` in the namespace of the file descriptor `peer_namespace` (down)."""
        master = self._existing(bridge) if bridge else 0
        self._send(requests.add_veth(name, peer, peer_namespace=peer_namespace, mtu=mtu, master=master))

    def remove(self, name: str) -> None:
        """Remove a link, of a veth pair both ends; an absent one is success."""
        self._send(requests.delete_link(name, may_be_absent=True))

    def set_up(self, name: str) -> None:
        self._send(requests.set_up(self._existing(name)))

    def add_address(self, name: str, address: str) -> None:
        """Add an address with its prefix length (`10.0.0.1/24`), without duplicate address detection."""
        self._send(requests.add_network_address(self._existing(name), address))

    def add_route(self, destination: str, *, via: str, table: int = RT_TABLE_MAIN, replaces: bool = True) -> None:
        """Add or replace the route to a network, or "default". If it may not replace one, raises FileExistsError."""
        self._send(requests.add_route(destination, via, table, replaces=replaces))

    def add_throw_route(self, destination: str, table: int) -> None:
        """Let another table decide about a network, or "default", of which this one has a wider route."""
        self._send(requests.add_throw_route(destination, table))

    def route_by_table(self, device: str, table: int, version: int = 4) -> None:
        """Route packets of one IP version that came from `device` by a table, before `refuse_forwarding` applies."""
        self._send(requests.add_lookup_rule(address_family(version), device, table, _TABLE_RULE_PRIORITY))

    def refuse_forwarding(self, device: str, version: int = 4) -> None:
        """Answer packets of one IP version that came from `device` and are for others with "network unreachable"."""
        self._send(requests.add_unreachable_rule(address_family(version), device, _RULE_PRIORITY))

    def _existing(self, name: str) -> int:
        index = self.index(name)
        if index is None:
            raise OSError(errno.ENODEV, f"no link {name!r}")
        return index

    def _send(self, request: Request) -> None:
        self._netlink.send([request])


def write_sysctl(name: str, value: str | int) -> None:
    """Set a sysctl of the current network namespace: `net/ipv4/ip_forward`; dots in link names stay as they are."""
    with open(f"/proc/sys/{name}", "w", encoding="ascii") as file:
        file.write(str(value))

"""Links, addresses, routes and neighbours of one network namespace, over rtnetlink.

A `Links` belongs to the namespace it was made in and stays there: its socket remembers it, whatever namespace the
process enters later. Operations that find their result already there are fine. Everything raises OSError. A device
may be given by its name or, sparing a question to the kernel, by its index.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from types import TracebackType
from typing import Any, Self

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError


class Links:
    """One rtnetlink socket. Use as a context manager, or `close` it."""

    def __init__(self) -> None:
        self._ip: Any = IPRoute()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._ip.close()

    def index(self, name: str) -> int | None:
        """The index of a link, None when there is none of that name."""
        found = self._call("link_lookup", ifname=name)
        return int(found[0]) if found else None

    def _index(self, name: str | int) -> int:
        if isinstance(name, int):
            return name
        index = self.index(name)
        if index is None:
            raise OSError(errno.ENODEV, f"no link {name!r}")
        return index

    def add_bridge(self, name: str, *, mtu: int = 1500) -> int:
        if self.index(name) is None:
            # No forwarding delay: nothing here can form a loop, and the first packet must pass.
            self._call("link", "add", ifname=name, kind="bridge", br_forward_delay=0, mtu=mtu, state="up")
        return self._index(name)

    def add_veth(
        self,
        name: str,
        *,
        peer: str,
        peer_namespace: int,
        mac: str | None = None,
        peer_mac: str | None = None,
        mtu: int = 1500,
        bridge: str | None = None,
    ) -> None:
        """Make a pair: `name` here (up), `peer` in the namespace of the file descriptor `peer_namespace` (down)."""
        theirs: dict[str, Any] = {"ifname": peer, "net_ns_fd": peer_namespace, "mtu": mtu}
        if peer_mac:
            theirs["address"] = peer_mac
        ours: dict[str, Any] = {"address": mac} if mac else {}
        if bridge:
            ours["master"] = self._index(bridge)
        self._call("link", "add", ifname=name, kind="veth", peer=theirs, mtu=mtu, state="up", **ours)

    def set_up(self, name: str | int) -> None:
        self._call("link", "set", index=self._index(name), state="up")

    def delete(self, name: str) -> None:
        index = self.index(name)
        if index is not None:
            self._tolerate(errno.ENODEV, "link", "del", index=index)

    def add_address(self, name: str | int, address: str) -> None:
        """`address` with its prefix length: `10.0.0.1/24`."""
        interface = ipaddress.ip_interface(address)
        self._tolerate(
            errno.EEXIST,
            "addr",
            "add",
            index=self._index(name),
            address=str(interface.ip),
            prefixlen=interface.network.prefixlen,
        )

    def add_route(
        self, destination: str, *, via: str | None = None, device: str | int | None = None, onlink: bool = False
    ) -> None:
        """Add or replace. `destination` is a network, or "default"."""
        route: dict[str, Any] = {"dst": destination}
        if destination == "default":
            route["family"] = socket.AF_INET6 if via and ":" in via else socket.AF_INET
        if via:
            route["gateway"] = via
        else:
            route["scope"] = 253  # link: the destination is on the device itself
        if device is not None:
            route["oif"] = self._index(device)
        if onlink:
            route["flags"] = 4  # RTNH_F_ONLINK
        self._call("route", "replace", **route)

    def delete_route(self, destination: str, *, device: str | int | None = None) -> None:
        """With `device`, only the route over it: another may have taken its place."""
        route: dict[str, Any] = {"dst": destination}
        if device is not None:
            if isinstance(device, str) and self.index(device) is None:
                return
            route["oif"] = self._index(device)
        self._tolerate(errno.ESRCH, "route", "del", **route)

    def add_neighbour(self, address: str, mac: str, device: str | int) -> None:
        """A permanent entry."""
        self._call("neigh", "replace", dst=address, lladdr=mac, ifindex=self._index(device), state=0x80)

    def refuse_forwarding(self, device: str) -> None:
        """Answer what comes in on `device` for somebody else with "network unreachable" (IPv4)."""
        self._tolerate(errno.EEXIST, "rule", "add", iifname=device, action="unreachable", priority=100)

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return getattr(self._ip, method)(*args, **kwargs)
        except NetlinkError as error:
            what = kwargs.get("ifname") or kwargs.get("dst") or kwargs.get("address") or ""
            raise OSError(
                error.code, f"{method} {' '.join(map(str, args))} {what}: {os.strerror(error.code)}"
            ) from error

    def _tolerate(self, code: int, method: str, *args: Any, **kwargs: Any) -> None:
        try:
            self._call(method, *args, **kwargs)
        except OSError as error:
            if error.errno != code:
                raise


def write_sysctl(name: str, value: str | int) -> None:
    """Set a sysctl of the current network namespace: `net/ipv4/ip_forward`; dots in link names stay as they are."""
    with open(f"/proc/sys/{name}", "w", encoding="ascii") as file:
        file.write(str(value))

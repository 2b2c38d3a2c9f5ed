"""Links, addresses and routes of one network namespace, over rtnetlink.

A `Links` belongs to the namespace it was made in and stays there: its socket remembers it, whatever namespace the
process enters later. Operations that find their result already there are fine. Everything raises OSError.
"""

from __future__ import annotations

import errno
import ipaddress
import os
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl.ifaddrmsg import IFA_F_NODAD

from .closable import Closable
from .netlink import address_family


class Links(Closable):
    """One rtnetlink socket. Use as a context manager, or `close` it."""

    def __init__(self) -> None:
        self._ip: Any = IPRoute()

    def close(self) -> None:
        self._ip.close()

    def index(self, name: str) -> int | None:
        """The index of a link, None when there is none of that name."""
        found = self._call("link_lookup", ifname=name)
        return int(found[0]) if found else None

    def _index(self, name: str) -> int:
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
        self, name: str, *, peer: str, peer_namespace: int, mtu: int = 1500, bridge: str | None = None
    ) -> None:
        """Make a pair: `name` here (up), `peer` in the namespace of the file descriptor `peer_namespace` (down)."""
        theirs: dict[str, Any] = {"ifname": peer, "net_ns_fd": peer_namespace, "mtu": mtu}
        ours: dict[str, Any] = {"master": self._index(bridge)} if bridge else {}
        self._call("link", "add", ifname=name, kind="veth", peer=theirs, mtu=mtu, state="up", **ours)

    def set_up(self, name: str) -> None:
        self._call("link", "set", index=self._index(name), state="up")

    def add_address(self, name: str, address: str) -> None:
        """`address` with its prefix length: `10.0.0.1/24`. Usable at once: duplicates of it are not looked for."""
        interface = ipaddress.ip_interface(address)
        self._tolerate(
            errno.EEXIST,
            "addr",
            "add",
            index=self._index(name),
            address=str(interface.ip),
            prefixlen=interface.network.prefixlen,
            flags=IFA_F_NODAD if interface.version == 6 else 0,
        )

    def add_route(self, destination: str, *, via: str) -> None:
        """Add or replace. `destination` is a network, or "default"."""
        route: dict[str, Any] = {"dst": destination, "gateway": via}
        if destination == "default":
            route["family"] = address_family(6 if ":" in via else 4)
        self._call("route", "replace", **route)

    def refuse_forwarding(self, device: str, version: int = 4) -> None:
        """Answer what comes in on `device` for somebody else with "network unreachable", of one IP version."""
        family = address_family(version)
        self._tolerate(errno.EEXIST, "rule", "add", family=family, iifname=device, action="unreachable", priority=100)

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

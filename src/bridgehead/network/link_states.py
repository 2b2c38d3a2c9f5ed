"""The links of a network namespace, their states and MAC addresses, kept up to date by the kernel's notifications.

Source: rtnetlink(7), linux/if_link.h, linux/if.h.
"""

from __future__ import annotations

import errno
import socket
import sys
from typing import Final, NamedTuple

from . import rtnetlink_requests as requests
from .closable import Closable
from .netlink_attributes import parse_attributes, parse_text
from .netlink_socket import NetlinkSocket
from .uapi.if_ import IFF_LOOPBACK, IFF_NOARP, IFF_RUNNING, IFF_UP
from .uapi.if_link import IFLA_ADDRESS, IFLA_IFNAME, IFLA_MASTER
from .uapi.rtnetlink import RTM_DELLINK, RTM_NEWLINK, RTMGRP_LINK

_MAC_BYTES: Final = 6


class Link(NamedTuple):
    """A link. `number`: its interface index. `mac` is empty for a link that has no Ethernet address.

    `master`: number of its bridge or bond, or 0.
    `transmits`: it is up and has a carrier. `resolves`: neighbours are resolved by ARP or neighbour discovery.
    """

    number: int
    name: str
    mac: bytes
    master: int
    transmits: bool
    resolves: bool


class LinkStates(Closable):
    """The links of the network namespace in which it was made. Raises OSError."""

    def __init__(self) -> None:
        self._links: dict[int, Link] = {}
        self._watch = NetlinkSocket(socket.NETLINK_ROUTE, RTMGRP_LINK)
        try:
            self._list()
        except OSError:
            self._watch.close()
            raise

    def close(self) -> None:
        self._watch.close()

    def fileno(self) -> int:
        """Return a descriptor that is readable when `update` has something to read."""
        return self._watch.fileno()

    def all(self) -> list[Link]:
        return list(self._links.values())

    def transmits(self, name: str) -> bool:
        """Return whether there is a link of this name that transmits."""
        return any(link.name == name and link.transmits for link in self._links.values())

    def update(self) -> None:
        """Take the kernel's notifications since the last call, without waiting."""
        try:
            for kind, payload in self._watch.notifications():
                self._take(kind, payload)
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            self._list()

    def _list(self) -> None:
        self._links.clear()
        with NetlinkSocket(socket.NETLINK_ROUTE) as netlink:
            for payload in netlink.dump(requests.list_links()):
                self._take(RTM_NEWLINK, payload)

    def _take(self, kind: int, payload: bytes) -> None:
        # A bridge reports its ports as messages of the family AF_BRIDGE, which are about the port, not the link.
        family, _, index, flags, _ = requests.LINK_HEADER.unpack_from(payload)
        if family != socket.AF_UNSPEC:
            return
        if kind == RTM_DELLINK:
            self._links.pop(index, None)
        elif kind == RTM_NEWLINK:
            found = parse_attributes(payload[requests.LINK_HEADER.size :])
            mac = found.get(IFLA_ADDRESS, b"")
            self._links[index] = Link(
                index,
                parse_text(found.get(IFLA_IFNAME, b"")),
                mac if len(mac) == _MAC_BYTES and not flags & IFF_LOOPBACK else b"",
                int.from_bytes(found.get(IFLA_MASTER, b""), sys.byteorder),
                transmits=flags & (IFF_UP | IFF_RUNNING) == IFF_UP | IFF_RUNNING,
                resolves=not flags & (IFF_NOARP | IFF_LOOPBACK),
            )

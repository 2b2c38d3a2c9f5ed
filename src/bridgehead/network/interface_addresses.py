"""The addresses of a network namespace: listing, watching, and adding thousands to a dummy interface.

Source: rtnetlink(7), linux/if_addr.h, linux/if_link.h.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import socket
from collections.abc import Iterable
from typing import Final, NamedTuple

from . import rtnetlink_requests as requests
from .closable import Closable
from .netlink_attributes import parse_attributes
from .netlink_socket import NetlinkSocket, Request
from .uapi.if_addr import IFA_ADDRESS, IFA_LOCAL
from .uapi.rtnetlink import RTM_DELADDR, RTM_NEWADDR, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR

_ADDRESSES_AT_ONCE: Final = 100  # the receive buffer has to hold the kernel's notifications of them


class Address(NamedTuple):
    """A canonical address and the index of the link that has it."""

    address: str
    link: int


class Addresses(Closable):
    """The addresses of the network namespace in which it was made. Methods block, and raise OSError."""

    def __init__(self) -> None:
        self._netlink = NetlinkSocket(socket.NETLINK_ROUTE)
        try:
            self._watch = NetlinkSocket(socket.NETLINK_ROUTE, RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR)
        except OSError:
            self._netlink.close()
            raise
        self._changed: list[Address] | None = []  # None: notifications were lost

    def close(self) -> None:
        self._netlink.close()
        self._watch.close()

    def fileno(self) -> int:
        """Return a descriptor that is readable when `changes` has news, except of changes through this object."""
        return self._watch.fileno()

    def all(self) -> list[Address]:
        """Return every IPv4 and IPv6 address of every link."""
        found = []
        for payload in self._netlink.dump(requests.list_addresses()):
            address = _parse(payload)
            if address is not None:
                found.append(address)
        return found

    def changes(self) -> list[Address] | None:
        """Return the addresses added or removed since the last call, also by this object. None: some are unknown."""
        self._receive()
        changed, self._changed = self._changed, []
        return changed

    def _receive(self) -> None:
        """Read the kernel's notifications, before its buffer for them is full."""
        try:
            for kind, payload in self._watch.notifications():
                address = _parse(payload) if kind in (RTM_NEWADDR, RTM_DELADDR) else None
                if address is not None and self._changed is not None:
                    self._changed.append(address)
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            with contextlib.suppress(OSError):
                for _ in self._watch.notifications():
                    pass
            self._changed = None

    def link(self, name: str) -> int:
        """Return the index of a link; 0 if there is none of that name."""
        answer = self._netlink.ask(requests.find_link(name))
        return requests.link_index(answer) if answer is not None else 0

    def add_dummy(self, name: str) -> int:
        """Make a dummy interface, which stays down, unless there is a link of that name. Return the link's index.

        Raises OSError with EOPNOTSUPP when the kernel has no dummy interfaces.
        """
        self._netlink.send([requests.add_dummy(name)])
        return self.link(name)

    def remove_link(self, name: str) -> None:
        """Remove a link with its addresses; an absent one is success."""
        self._netlink.send([requests.delete_link(name, may_be_absent=True)])

    def add(self, addresses: Iterable[Address]) -> None:
        """Add addresses as /32 or /128; those that exist are success."""
        self._change(requests.add_host_address(link, address) for address, link in addresses)

    def remove(self, addresses: Iterable[Address]) -> None:
        """Remove addresses; absent ones are success."""
        self._change(requests.delete_host_address(link, address) for address, link in addresses)

    def _change(self, changes: Iterable[Request]) -> None:
        waiting = iter(changes)
        while chunk := list(itertools.islice(waiting, _ADDRESSES_AT_ONCE)):
            self._netlink.send(chunk)
            self._receive()


def _parse(payload: bytes) -> Address | None:
    """Return the address of an RTM_NEWADDR or RTM_DELADDR message; None for other families than IPv4 and IPv6."""
    family, _, _, _, link = requests.ADDRESS_HEADER.unpack_from(payload)
    if family not in (socket.AF_INET, socket.AF_INET6):
        return None
    found = parse_attributes(payload[requests.ADDRESS_HEADER.size :])
    packed = found.get(IFA_LOCAL) or found.get(IFA_ADDRESS)
    return Address(socket.inet_ntop(family, packed), link) if packed else None

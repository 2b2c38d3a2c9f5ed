"""A node's addresses, and the dummy interface that holds those of its Services. Over rtnetlink, encoded by hand.

`links` does single things for the lab; a proxy binds 10,000 addresses and wants to know when others change theirs.
Source: rtnetlink(7), linux/if_addr.h, linux/if_link.h.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import socket
from collections.abc import Iterable
from typing import Final, NamedTuple

from .closable import Closable
from .netlink import CREATE, EXCL, Netlink, Request, attribute, attributes, nest, text
from .rtnetlink import (
    ADDRESS,
    DELADDR,
    GETADDR,
    GETLINK,
    LINK,
    NEWADDR,
    NEWLINK,
    NO_DAD,
    delete_link,
    pack,
)

_ADDRESS_GROUPS: Final = 0x10 | 0x100  # RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_AT_ONCE: Final = 100  # addresses; the kernel's room for what it tells of them has to do

_THERE: Final = frozenset((errno.EEXIST,))
_GONE: Final = frozenset((errno.EADDRNOTAVAIL, errno.ENODEV))
_NO_SUCH_LINK: Final = frozenset((errno.ENODEV,))


class Address(NamedTuple):
    """An address and the index of the link that has it."""

    address: str
    link: int


class Addresses(Closable):
    """The addresses of the network namespace in which it was made. Use as a context manager, or `close` it.

    Methods block, and raise OSError.
    """

    def __init__(self) -> None:
        self._netlink = Netlink(socket.NETLINK_ROUTE)
        try:
            self._watch = Netlink(socket.NETLINK_ROUTE, _ADDRESS_GROUPS)
        except OSError:
            self._netlink.close()
            raise
        self._heard: list[Address] | None = []  # None: some were lost

    def close(self) -> None:
        self._netlink.close()
        self._watch.close()

    def fileno(self) -> int:
        """Readable when `changes` has something to tell, other than of what came or went through this object."""
        return self._watch.fileno()

    def all(self) -> list[Address]:
        """Every address of every link, canonical."""
        found = []
        request = Request(GETADDR, 0, ADDRESS.pack(0, 0, 0, 0, 0), "list addresses")
        for payload in self._netlink.dump(request):
            address = _parse(payload)
            if address is not None:
                found.append(address)
        return found

    def changes(self) -> list[Address] | None:
        """Which addresses came or went since the last call, ours included. None: too many to be told."""
        self._hear()
        heard, self._heard = self._heard, []
        return heard

    def _hear(self) -> None:
        """Take in what the kernel has told, before it has no more room for it."""
        try:
            for kind, payload in self._watch.notifications():
                address = _parse(payload) if kind in (NEWADDR, DELADDR) else None
                if address is not None and self._heard is not None:
                    self._heard.append(address)
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            with contextlib.suppress(OSError):
                for _ in self._watch.notifications():
                    pass
            self._heard = None

    def link(self, name: str) -> int:
        """The index of a link; 0 when there is none of that name."""
        request = Request(GETLINK, 0, LINK.pack(0, 0, 0, 0, 0) + text(3, name), f"look for {name}", _NO_SUCH_LINK)
        answer = self._netlink.ask(request)
        return int(LINK.unpack_from(answer)[2]) if answer is not None else 0

    def add_dummy(self, name: str) -> int:
        """Make a dummy interface, which stays down, if there is none of that name; its index.

        Raises OSError with EOPNOTSUPP when the kernel has no dummy interfaces.
        """
        body = LINK.pack(0, 0, 0, 0, 0) + text(3, name) + nest(18, text(1, "dummy"))
        self._netlink.send([Request(NEWLINK, CREATE | EXCL, body, f"add {name}", _THERE)])
        return self.link(name)

    def remove_link(self, name: str) -> None:
        """Remove a link with its addresses; one that is gone is fine."""
        self._netlink.send([delete_link(name)._replace(tolerated=_NO_SUCH_LINK)])

    def add(self, addresses: Iterable[Address]) -> None:
        """Add host addresses; those that are there are fine."""
        self._change(
            Request(NEWADDR, CREATE | EXCL, _host_address(address), f"add {address.address}", _THERE)
            for address in addresses
        )

    def remove(self, addresses: Iterable[Address]) -> None:
        """Remove host addresses; those that are gone are fine."""
        self._change(
            Request(DELADDR, 0, _host_address(address), f"remove {address.address}", _GONE) for address in addresses
        )

    def _change(self, requests: Iterable[Request]) -> None:
        waiting = iter(requests)
        while chunk := list(itertools.islice(waiting, _AT_ONCE)):
            self._netlink.send(chunk)
            self._hear()


def _host_address(address: Address) -> bytes:
    family, length, packed = pack(address.address)
    body = ADDRESS.pack(family, length, NO_DAD if family == socket.AF_INET6 else 0, 0, address.link)
    return body + attribute(_IFA_LOCAL, packed) + attribute(_IFA_ADDRESS, packed)


def _parse(payload: bytes) -> Address | None:
    """The address in a message; None for a family that is not one of the two."""
    family, _, _, _, link = ADDRESS.unpack_from(payload)
    if family not in (socket.AF_INET, socket.AF_INET6):
        return None
    found = attributes(payload[ADDRESS.size :])
    packed = found.get(_IFA_LOCAL) or found.get(_IFA_ADDRESS)
    return Address(socket.inet_ntop(family, packed), link) if packed else None

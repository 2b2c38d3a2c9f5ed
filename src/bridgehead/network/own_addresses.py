"""Addresses that only this network namespace itself uses: on lo, and never chosen as a source by themselves.

The proxy's userspace mode listens on one for each family. The DNS on each node receives queries for the cluster DNS's
address by a local route, without having the address. Source: rtnetlink(7), linux/if_addr.h, linux/rtnetlink.h.
"""

from __future__ import annotations

import errno
import socket

from . import rtnetlink_requests as requests
from .netlink_socket import NetlinkSocket, Request

_DISCARD_PORT = 9  # any port does: connecting a UDP socket sends nothing


def add_own_address(address: str) -> None:
    """Add the address to lo; one that exists is success. Raises OSError."""
    _send(requests.add_loopback_address(address))


def remove_own_address(address: str) -> bool:
    """Remove the address from lo. Return False if it was absent."""
    return _remove(requests.delete_loopback_address(address), errno.EADDRNOTAVAIL)


def source_towards(address: str) -> str:
    """Return the source address of packets from here to `address`; "" without a route. Sends nothing."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, _DISCARD_PORT))
        except OSError:
            return ""
        return str(probe.getsockname()[0])


def is_local(address: str) -> bool:
    """Return whether this network namespace has the address."""
    return source_towards(address) == address


def add_local_route(address: str, source: str) -> None:
    """Receive packets for the address without having it: it is in no list of addresses and never a source by itself.

    Packets from this namespace to the address have the source `source` ("": the address). Sockets need IP_FREEBIND or
    IPV6_FREEBIND to bind to the address. Raises OSError; EEXIST when a link has the address.
    """
    _send(requests.add_local_route(address, source))


def remove_local_route(address: str) -> bool:
    """Undo `add_local_route`; routes that the kernel made for addresses stay. Return False if it was absent."""
    return _remove(requests.delete_local_route(address), errno.ESRCH)


def _send(request: Request) -> None:
    with NetlinkSocket(socket.NETLINK_ROUTE) as netlink:
        netlink.send([request])


def _remove(request: Request, absent: int) -> bool:
    """Return False if the object was absent: by the errno `absent`, or because the link or the whole family is."""
    try:
        _send(request)
    except OSError as error:
        if error.errno not in (absent, errno.ENODEV, errno.EAFNOSUPPORT, errno.EOPNOTSUPP):
            raise
        return False
    return True

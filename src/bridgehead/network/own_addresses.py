"""Addresses that only this network namespace itself uses: on `lo`, and never chosen as a source by themselves.

The proxy's userspace mode has one for each family, on which it listens; the DNS takes in, by a route and no address,
what is sent to the cluster's own. Source: rtnetlink(7), linux/if_addr.h, linux/rtnetlink.h.
"""

from __future__ import annotations

import errno
import socket
import struct
from typing import Final

from .netlink import CREATE, EXCL, REPLACE, Netlink, Request, attribute
from .rtnetlink import (
    ADDRESS,
    DELADDR,
    DELROUTE,
    NEWADDR,
    NEWROUTE,
    NO_DAD,
    NO_PREFIX_ROUTE,
    ROUTE,
    STATIC,
    pack,
)

_LOCAL_TABLE, _TYPE_LOCAL = 255, 2
_LOOPBACK: Final = 1  # the index of lo in every namespace
_SCOPE_HOST: Final = 254
_FOREVER: Final = 0xFFFFFFFF


def add_own_address(address: str) -> None:
    """Give this namespace the address; one that is there already is fine. Raises OSError."""
    body = _body(address)
    if ":" in address:
        body += attribute(8, struct.pack("=I", NO_DAD | NO_PREFIX_ROUTE))  # IFA_FLAGS
        # IFA_CACHEINFO with no preferred lifetime: deprecated, so only used by who asks for it (RFC 6724, rule 3).
        body += attribute(6, struct.pack("=IIII", 0, _FOREVER, 0, 0))
    with Netlink(socket.NETLINK_ROUTE) as netlink:
        netlink.send([Request(NEWADDR, CREATE | REPLACE, body, f"add address {address}")])


def remove_own_address(address: str) -> bool:
    """Take it away again. False: it was not there."""
    return _remove(Request(DELADDR, 0, _body(address), f"remove address {address}"), errno.EADDRNOTAVAIL)


def source_towards(address: str) -> str:
    """The address this namespace would send from to that one; "" when there is no way to it.

    Asks the routing tables; sends nothing.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
        except OSError:
            return ""
        return str(probe.getsockname()[0])


def is_local(address: str) -> bool:
    """Whether an address is one of this network namespace's own."""
    return source_towards(address) == address


def add_local_route(address: str, source: str) -> None:
    """Take in what is sent to the address, without having it: nobody sees it among the addresses or sends from it.

    What is sent there from here itself goes out with `source` ("": with the address). Sockets need IP_FREEBIND or
    IPV6_FREEBIND to be bound to it. Raises OSError; EEXIST when somebody has the address.
    """
    body = _route(address) + (attribute(7, pack(source)[2]) if source else b"")  # RTA_PREFSRC
    with Netlink(socket.NETLINK_ROUTE) as netlink:
        netlink.send([Request(NEWROUTE, CREATE | EXCL, body, f"take in what is sent to {address}")])


def remove_local_route(address: str) -> bool:
    """Only such a one: those that come with addresses stay. False: it was not there."""
    return _remove(Request(DELROUTE, 0, _route(address), f"take in no more what is sent to {address}"), errno.ESRCH)


def _remove(request: Request, absent: int) -> bool:
    """False: it was not there, of which this errno tells, or a lack of the link or of the whole family."""
    with Netlink(socket.NETLINK_ROUTE) as netlink:
        try:
            netlink.send([request])
        except OSError as error:
            if error.errno not in (absent, errno.ENODEV, errno.EAFNOSUPPORT, errno.EOPNOTSUPP):
                raise
            return False
    return True


def _route(address: str) -> bytes:
    family, length, packed = pack(address)
    head = ROUTE.pack(family, length, 0, 0, _LOCAL_TABLE, STATIC, _SCOPE_HOST, _TYPE_LOCAL, 0)
    return head + attribute(1, packed) + attribute(4, struct.pack("=I", _LOOPBACK))  # RTA_DST, RTA_OIF


def _body(address: str) -> bytes:
    family, length, packed = pack(address)
    # Both IFA_LOCAL and IFA_ADDRESS. IPv4 takes the scope, by which no connection elsewhere gets it as its source.
    return ADDRESS.pack(family, length, 0, _SCOPE_HOST, _LOOPBACK) + attribute(2, packed) + attribute(1, packed)

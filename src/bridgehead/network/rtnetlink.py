"""rtnetlink's messages, and the requests that wire one pod, encoded by hand, to be sent by a `netlink.Netlink`.

`links` speaks to the kernel through pyroute2, which is right for what is done once. A pod needs eleven requests, a node
makes many pods, and the process that makes them forks each container from itself: what it touches is copied for
every fork. Encoded here, the same work takes a seventh of the time and touches next to nothing. The requests are the
container runtime's; `addresses` and `own_addresses` make theirs of the same heads and numbers.
Source: rtnetlink(7), linux/if_link.h, linux/if_addr.h, linux/rtnetlink.h, linux/veth.h.
"""

from __future__ import annotations

import errno
import socket
import struct
from typing import Final

from .netlink import CREATE, EXCL, REPLACE, Request, attribute, attributes, text

NEWLINK, DELLINK, GETLINK, NEWADDR, DELADDR, GETADDR = 16, 17, 18, 20, 21, 22  # RTM_*
NEWROUTE, DELROUTE, GETROUTE, NEWNEIGH = 24, 25, 26, 28
_UP: Final = 1
_PERMANENT: Final = 0x80
_ONLINK: Final = 4
NO_DAD, NO_PREFIX_ROUTE = 0x02, 0x200  # IFA_F_NODAD, IFA_F_NOPREFIXROUTE
_OPERSTATE, _OPERATING = 16, 6  # IFLA_OPERSTATE, IF_OPER_UP
_NO_LINK_LOCAL: Final = 1  # of IFLA_INET6_ADDR_GEN_MODE
_LOCAL: Final = 2  # RTN_LOCAL
STATIC: Final = 4  # RTPROT_STATIC
_MAIN_TABLE, _UNICAST, _SCOPE_UNIVERSE, _SCOPE_LINK = 254, 1, 0, 253

LINK: Final = struct.Struct("=BxHiII")  # struct ifinfomsg
ADDRESS: Final = struct.Struct("=BBBBI")  # struct ifaddrmsg
ROUTE: Final = struct.Struct("=BBBBBBBBI")  # struct rtmsg


def _number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))


def _mac(kind: int, mac: str) -> bytes:
    return attribute(kind, bytes.fromhex(mac.replace(":", "")))


def _end(name: str, mac: str, mtu: int) -> bytes:
    """IFLA_IFNAME, IFLA_ADDRESS, IFLA_MTU."""
    return text(3, name) + _mac(1, mac) + _number(4, mtu)


def add_veth(
    name: str, mac: str, peer: str, peer_mac: str, *, peer_namespace: int, mtu: int, group: int = 0
) -> Request:
    """A pair: `name` here (up, in that group of interfaces), `peer` in the namespace of that descriptor (down)."""
    there = LINK.pack(0, 0, 0, 0, 0) + _end(peer, peer_mac, mtu) + _number(28, peer_namespace)  # IFLA_NET_NS_FD
    data = attribute(2, attribute(1, there))  # IFLA_INFO_DATA, VETH_INFO_PEER
    info = attribute(18, text(1, "veth") + data)  # IFLA_LINKINFO, IFLA_INFO_KIND
    body = LINK.pack(0, 0, 0, _UP, _UP) + _end(name, mac, mtu) + _number(27, group) + info  # IFLA_GROUP
    return Request(NEWLINK, CREATE | EXCL, body, f"add veth {name}")


def delete_link(name: str) -> Request:
    """With its peer."""
    return Request(DELLINK, 0, LINK.pack(0, 0, 0, 0, 0) + text(3, name), f"delete link {name}")


def set_up(index: int) -> Request:
    return Request(NEWLINK, 0, LINK.pack(0, 0, index, _UP, _UP), f"set link {index} up")


def get_link(index: int) -> Request:
    """To be asked; `is_operating` reads the answer."""
    return Request(GETLINK, 0, LINK.pack(0, 0, index, 0, 0), f"get link {index}")


def is_operating(answer: bytes) -> bool:
    """Whether the link sends what it is given.

    It does when the kernel's link watch has noticed its carrier, a moment after both ends of a pair are up; until then
    it drops everything without a word. Recent kernels notice before they answer, older ones in their own time.
    """
    return attributes(answer[LINK.size :]).get(_OPERSTATE) == bytes([_OPERATING])


def set_no_link_local(index: int) -> Request:
    """Before the link is up: it gets no IPv6 link-local address, and asks for no router."""
    mode = attribute(8, struct.pack("=B", _NO_LINK_LOCAL))  # IFLA_INET6_ADDR_GEN_MODE
    families = attribute(26, attribute(socket.AF_INET6, mode))  # IFLA_AF_SPEC
    body = LINK.pack(0, 0, index, 0, 0) + families
    return Request(NEWLINK, 0, body, f"let link {index} have no link-local address")


def pack(address: str) -> tuple[int, int, bytes]:
    """The family, the length in bits and the bytes of an address."""
    if ":" in address:
        return socket.AF_INET6, 128, socket.inet_pton(socket.AF_INET6, address)
    return socket.AF_INET, 32, socket.inet_aton(address)


def add_address(index: int, address: str) -> Request:
    """An address as a /32 or /128: nobody else can have it, so duplicates are not looked for. `is_here` tells when the
    kernel takes in what is sent to it."""
    family, length, packed = pack(address)
    flags = NO_DAD | NO_PREFIX_ROUTE if family == socket.AF_INET6 else 0
    body = ADDRESS.pack(family, length, flags & 0xFF, 0, index)
    body += attribute(2, packed) + attribute(1, packed) + (_number(8, flags) if flags else b"")
    return Request(NEWADDR, CREATE | EXCL, body, f"add address {address}")


def get_route(address: str) -> Request:
    """To be asked; `is_here` reads the answer."""
    family, length, packed = pack(address)
    body = ROUTE.pack(family, length, 0, 0, 0, 0, 0, 0, 0) + attribute(1, packed)
    return Request(GETROUTE, 0, body, f"get route {address}", frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH}))


def is_here(answer: bytes) -> bool:
    """Whether what is sent to the address is for this network namespace: of IPv6 a moment after it was added."""
    return len(answer) > 7 and answer[7] == _LOCAL  # rtm_type


def add_neighbour(index: int, address: str, mac: str) -> Request:
    """A permanent neighbour."""
    family, _, packed = pack(address)
    body = struct.pack("=BxxxiHBB", family, index, _PERMANENT, 0, 0)
    return Request(NEWNEIGH, CREATE | REPLACE, body + attribute(1, packed) + _mac(2, mac), f"add neighbour {address}")


def _route(family: int, length: int, scope: int, flags: int) -> bytes:
    return ROUTE.pack(family, length, 0, 0, _MAIN_TABLE, STATIC, scope, _UNICAST, flags)


def add_host_route(index: int, address: str) -> Request:
    """To one address, on the device itself; takes the place of another."""
    family, length, packed = pack(address)
    body = _route(family, length, _SCOPE_LINK, 0) + attribute(1, packed) + _number(4, index)
    return Request(NEWROUTE, CREATE | REPLACE, body, f"add route {address}")


def delete_host_route(index: int, address: str) -> Request:
    """Only if it goes over that device."""
    family, length, packed = pack(address)
    body = _route(family, length, _SCOPE_LINK, 0) + attribute(1, packed) + _number(4, index)
    return Request(DELROUTE, 0, body, f"delete route {address}")


def add_default_route(index: int, gateway: str) -> Request:
    """By a gateway that is taken to be on the link."""
    family, _, packed = pack(gateway)
    body = _route(family, 0, _SCOPE_UNIVERSE, _ONLINK) + attribute(5, packed) + _number(4, index)
    return Request(NEWROUTE, CREATE | REPLACE, body, f"add default route by {gateway}")

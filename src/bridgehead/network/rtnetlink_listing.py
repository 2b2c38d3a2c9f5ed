"""The links of a network namespace with their addresses, and the routes of all its tables. Reads only.

Source: rtnetlink(7), linux/rtnetlink.h, linux/if_link.h, linux/if_addr.h.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from . import rtnetlink_requests as requests
from .netlink_attributes import aligned, parse_attributes, parse_text
from .netlink_socket import NetlinkSocket
from .uapi.if_ import IFF_UP
from .uapi.if_addr import IFA_ADDRESS, IFA_LOCAL
from .uapi.if_link import IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINKINFO, IFLA_MTU
from .uapi.rtnetlink import (
    RT_TABLE_DEFAULT,
    RT_TABLE_LOCAL,
    RT_TABLE_MAIN,
    RTA_DST,
    RTA_GATEWAY,
    RTA_MULTIPATH,
    RTA_OIF,
    RTA_PREFSRC,
    RTA_PRIORITY,
    RTA_TABLE,
    RTA_VIA,
    RTM_F_CLONED,
    RTN_ANYCAST,
    RTN_BLACKHOLE,
    RTN_BROADCAST,
    RTN_LOCAL,
    RTN_MULTICAST,
    RTN_PROHIBIT,
    RTN_THROW,
    RTN_UNICAST,
    RTN_UNREACHABLE,
)

_NEXTHOP: Final = struct.Struct("=HBBi")  # struct rtnexthop: length, flags, hops, interface's index
_VIA_FAMILY: Final = struct.Struct("=H")  # the beginning of struct rtvia
_TABLES: Final = {RT_TABLE_MAIN: "main", RT_TABLE_LOCAL: "local", RT_TABLE_DEFAULT: "default"}
_KINDS: Final = {
    RTN_UNICAST: "unicast",
    RTN_LOCAL: "local",
    RTN_BROADCAST: "broadcast",
    RTN_ANYCAST: "anycast",
    RTN_MULTICAST: "multicast",
    RTN_BLACKHOLE: "blackhole",
    RTN_UNREACHABLE: "unreachable",
    RTN_PROHIBIT: "prohibit",
    RTN_THROW: "throw",
}
_BITS: Final = {socket.AF_INET: 32, socket.AF_INET6: 128}


class LinkRecord(NamedTuple):
    """A link. `number`: its interface index. `kind`: veth, bridge, ...; "" for hardware and loopback.

    `addresses`: with prefix lengths.
    """

    number: int
    name: str
    mtu: int
    is_up: bool
    kind: str
    addresses: tuple[str, ...]


class RouteRecord(NamedTuple):
    """A route, or one of its next hops. `destination`: a CIDR, or `default`. `source`: the preferred source address."""

    family: int  # 4 or 6
    destination: str
    device: str
    via: str
    kind: str
    table: str
    metric: int
    source: str


def list_links() -> list[LinkRecord]:
    """Return the links of the current network namespace. Raises OSError."""
    with NetlinkSocket(socket.NETLINK_ROUTE) as netlink:
        links = netlink.dump(requests.list_links())
        addresses: dict[int, list[str]] = {}
        for payload in netlink.dump(requests.list_addresses()):
            family, length, _, _, index = requests.ADDRESS_HEADER.unpack_from(payload)
            found = parse_attributes(payload[requests.ADDRESS_HEADER.size :])
            packed = found.get(IFA_LOCAL) or found.get(IFA_ADDRESS)
            if family in _BITS and packed:
                addresses.setdefault(index, []).append(f"{socket.inet_ntop(family, packed)}/{length}")
    return [_parse_link(payload, addresses) for payload in links]


def _parse_link(payload: bytes, addresses: Mapping[int, list[str]]) -> LinkRecord:
    _, _, index, flags, _ = requests.LINK_HEADER.unpack_from(payload)
    found = parse_attributes(payload[requests.LINK_HEADER.size :])
    kind = parse_attributes(found.get(IFLA_LINKINFO, b"")).get(IFLA_INFO_KIND, b"")
    return LinkRecord(
        index,
        parse_text(found.get(IFLA_IFNAME, b"")),
        _number(found.get(IFLA_MTU)),
        bool(flags & IFF_UP),
        parse_text(kind),
        tuple(addresses.get(index, ())),
    )


def list_routes(most: int) -> tuple[list[RouteRecord], bool]:
    """Return at most `most` routes of the current network namespace, and whether there are more. Raises OSError."""
    found: list[RouteRecord] = []
    names = dict(socket.if_nameindex())
    with NetlinkSocket(socket.NETLINK_ROUTE) as netlink:
        for family in _BITS:
            for payload in netlink.dump(requests.list_routes(family)):
                for record in parse_route(payload, names):
                    if len(found) == most:
                        return found, True
                    found.append(record)
    return found, False


def parse_route(payload: bytes, names: Mapping[int, str]) -> Iterator[RouteRecord]:
    """Yield the next hops of an RTM_NEWROUTE message; none for a cached one. `names`: of the links by index."""
    family, length, _, _, table, _, _, kind, flags = requests.ROUTE_HEADER.unpack_from(payload)
    if family not in _BITS or flags & RTM_F_CLONED:
        return
    found = parse_attributes(payload[requests.ROUTE_HEADER.size :])
    number = _number(found.get(RTA_TABLE)) or table
    destination = found.get(RTA_DST)
    if destination is None and length == 0:
        network = "default"
    else:
        network = f"{socket.inet_ntop(family, destination or bytes(_BITS[family] // 8))}/{length}"
    source = found.get(RTA_PREFSRC)
    for hop, index in _hops(found):
        yield RouteRecord(
            6 if family == socket.AF_INET6 else 4,
            network,
            names.get(index, f"if{index}") if index else "",
            _gateway(family, hop),
            _KINDS.get(kind, str(kind)),
            _TABLES.get(number, str(number)),
            _number(found.get(RTA_PRIORITY)),
            socket.inet_ntop(family, source) if source else "",
        )


def _hops(found: Mapping[int, bytes]) -> Iterator[tuple[Mapping[int, bytes], int]]:
    """Yield the attributes of each next hop with the index of its link; 0: none."""
    rest = found.get(RTA_MULTIPATH)
    if rest is None:
        yield found, _number(found.get(RTA_OIF))
        return
    while len(rest) >= _NEXTHOP.size:
        length, _, _, index = _NEXTHOP.unpack_from(rest)
        yield parse_attributes(rest[_NEXTHOP.size : length]), index
        rest = rest[max(aligned(length), _NEXTHOP.size) :]


def _gateway(family: int, hop: Mapping[int, bytes]) -> str:
    gateway, via = hop.get(RTA_GATEWAY), hop.get(RTA_VIA)
    if gateway:
        return socket.inet_ntop(family, gateway)
    if via:  # of another family
        return socket.inet_ntop(_VIA_FAMILY.unpack_from(via)[0], via[_VIA_FAMILY.size :])
    return ""


def _number(value: bytes | None) -> int:
    return int.from_bytes(value or b"", sys.byteorder)

"""Messages about routes, as the kernel writes them."""

from __future__ import annotations

import socket
import struct

from bridgehead.network.netlink_attributes import attribute, u32
from bridgehead.network.rtnetlink_listing import RouteRecord, parse_route
from bridgehead.network.rtnetlink_requests import ROUTE_HEADER
from bridgehead.network.uapi.rtnetlink import (
    RTA_DST,
    RTA_GATEWAY,
    RTA_MULTIPATH,
    RTA_OIF,
    RTA_PRIORITY,
    RTA_TABLE,
    RTA_VIA,
    RTM_F_CLONED,
    RTN_BLACKHOLE,
    RTN_UNICAST,
)

NAMES = {2: "eth0", 3: "eth1"}


def message(family: int, length: int, *attributes: bytes, table: int = 254, kind: int = RTN_UNICAST, flags: int = 0):
    return ROUTE_HEADER.pack(family, length, 0, 0, table, 0, 0, kind, flags) + b"".join(attributes)


def test_a_route_with_next_hops_is_one_record_for_each() -> None:
    hops = [
        attribute(RTA_GATEWAY, socket.inet_aton("10.0.0.1")),
        attribute(RTA_VIA, struct.pack("=H", socket.AF_INET6) + socket.inet_pton(socket.AF_INET6, "fe80::1")),
    ]
    packed = b"".join(
        struct.pack("=HBBi", 8 + len(hop), 0, 0, index) + hop for index, hop in zip((2, 3), hops, strict=True)
    )
    payload = message(socket.AF_INET, 0, attribute(RTA_MULTIPATH, packed), u32(RTA_PRIORITY, 7))
    assert list(parse_route(payload, NAMES)) == [
        RouteRecord(4, "default", "eth0", "10.0.0.1", "unicast", "main", 7, ""),
        RouteRecord(4, "default", "eth1", "fe80::1", "unicast", "main", 7, ""),
    ]


def test_a_table_beyond_255_and_a_link_that_has_gone() -> None:
    destination = attribute(RTA_DST, socket.inet_pton(socket.AF_INET6, "fd00::"))
    payload = message(socket.AF_INET6, 64, destination, u32(RTA_TABLE, 1000), u32(RTA_OIF, 9), table=252)
    assert list(parse_route(payload, NAMES)) == [
        RouteRecord(6, "fd00::/64", "if9", "", "unicast", "1000", 0, ""),
    ]


def test_other_kinds() -> None:
    destination = attribute(RTA_DST, socket.inet_aton("10.9.0.0"))
    (route,) = parse_route(message(socket.AF_INET, 16, destination, kind=RTN_BLACKHOLE), NAMES)
    assert (route.kind, route.destination, route.device) == ("blackhole", "10.9.0.0/16", "")
    assert list(parse_route(message(socket.AF_INET, 16, destination, flags=RTM_F_CLONED), NAMES)) == []
    assert list(parse_route(message(socket.AF_BRIDGE, 16, destination), NAMES)) == []

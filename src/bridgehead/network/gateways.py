"""The routers to which a network namespace sends what has no other route, from /proc/net.

Source: proc(5), net/ipv4/fib_trie.c and net/ipv6/route.c (columns), linux/route.h (flags).
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc/net")
_RTF_GATEWAY: Final = 0x0002
_NOTHING4: Final = "00000000"
_NOTHING6: Final = "0" * 32


def gateways() -> frozenset[str]:
    """Return the canonical addresses of the default routes' gateways. A family that the kernel lacks has none."""
    found: set[str] = set()
    for name, parse in (("route", parse_routes), ("ipv6_route", parse_ipv6_routes)):
        with contextlib.suppress(OSError), (_PROC / name).open(encoding="ascii") as lines:
            found.update(parse(lines))
    return frozenset(found)


def parse_routes(lines: Iterable[str]) -> Iterator[str]:
    """Yield the gateways of default routes of /proc/net/route: interface, destination, gateway, flags, ..., mask."""
    for columns in map(str.split, lines):
        if len(columns) < 8 or columns[1] != _NOTHING4 or columns[7] != _NOTHING4:
            continue
        if int(columns[3], 16) & _RTF_GATEWAY:
            yield str(ipaddress.IPv4Address(socket.htonl(int(columns[2], 16))))


def parse_ipv6_routes(lines: Iterable[str]) -> Iterator[str]:
    """Yield the gateways of default routes of /proc/net/ipv6_route.

    Its columns: destination and its length, source and its length, gateway, metric, two counters, flags, interface.
    """
    for columns in map(str.split, lines):
        if len(columns) < 9 or (columns[0], columns[1]) != (_NOTHING6, "00"):
            continue
        if int(columns[8], 16) & _RTF_GATEWAY:
            yield str(ipaddress.IPv6Address(int(columns[4], 16)))

"""Connections that IPVS translates, from /proc/net/ip_vs_conn: also those that connection tracking does not have.

IPVS has no such lookup by netlink. Source: net/netfilter/ipvs/ip_vs_conn.c.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from .conntrack import Endpoint
from .flow_lookup import FlowTuple, TrackedFlow

_CONNECTIONS: Final = Path("/proc/net/ip_vs_conn")
_UNANSWERED: Final = frozenset(("SYN_SENT", "SYN_RECV", "NONE", "INIT1"))  # of TCP and SCTP
_FIELDS: Final = 8  # protocol, three addresses with ports, state


def find_connection(wanted: FlowTuple) -> TrackedFlow | None:
    """Return the connection as the current network namespace translates it, None if IPVS does not have it.

    `reply_destination` is unknown: ("", 0). Raises OSError.
    """
    try:
        with _CONNECTIONS.open(encoding="ascii", errors="replace") as lines:
            return parse_connection(lines, wanted)
    except FileNotFoundError:
        return None


def parse_connection(lines: Iterable[str], wanted: FlowTuple) -> TrackedFlow | None:
    """Return the connection among the lines of ip_vs_conn: `TCP 0AF40101 C350 0A600011 0050 0AF40101 1F90 CLOSE 9`."""
    protocol = wanted.protocol.upper()
    for line in lines:
        fields = line.split()
        if len(fields) < _FIELDS or fields[0] != protocol:
            continue
        with contextlib.suppress(ValueError):
            if _endpoint(*fields[1:3]) == wanted.source and _endpoint(*fields[3:5]) == wanted.destination:
                return TrackedFlow(_endpoint(*fields[5:7]), ("", 0), fields[7] not in _UNANSWERED)
    return None


def _endpoint(address: str, port: str) -> Endpoint:
    number = ipaddress.IPv6Address(address) if ":" in address else ipaddress.IPv4Address(int(address, 16))
    return str(number), int(port, 16)

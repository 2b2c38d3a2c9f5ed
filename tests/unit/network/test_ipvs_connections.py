"""Lookups of connections in /proc/net/ip_vs_conn."""

from __future__ import annotations

import pytest

from bridgehead.network.flow_lookup import FlowTuple, TrackedFlow
from bridgehead.network.ipvs_connections import parse_connection

LISTING = """\
Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires PEName PEData
TCP 0AF40101 0000 0A600011 0050 0AF40101 1F90 NONE            300
TCP 0AF40101 C350 0A600011 0050 0AF40101 1F90 ESTABLISHED     900
UDP 0AF40102 C351 0A600010 0035 0AF40103 0035 UDP             299
TCP fd00:0244:0001:0000:0000:0000:0000:0001 C352 fd00:0096:0000:0000:0000:0000:0000:0010 0050 \
fd00:0244:0001:0000:0000:0000:0000:0002 1F90 SYN_RECV         9
TCP nonsense C350 0A600011
SCTP zz C350 0A600011 0050 0AF40101 1F90 CLOSED 9
""".splitlines()


@pytest.mark.parametrize(
    ("protocol", "source", "destination", "backend", "has_reply"),
    [
        ("tcp", ("10.244.1.1", 50000), ("10.96.0.17", 80), ("10.244.1.1", 8080), True),
        ("udp", ("10.244.1.2", 50001), ("10.96.0.16", 53), ("10.244.1.3", 53), True),
        ("tcp", ("fd00:244:1::1", 50002), ("fd00:96::10", 80), ("fd00:244:1::2", 8080), False),
    ],
)
def test_a_connection_is_found(protocol, source, destination, backend, has_reply):
    found = parse_connection(LISTING, FlowTuple(protocol, source, destination))
    assert found == TrackedFlow(backend, ("", 0), has_reply)


def test_a_connection_that_is_not_there():
    assert parse_connection(LISTING, FlowTuple("tcp", ("10.244.1.1", 50001), ("10.96.0.17", 80))) is None
    assert parse_connection(LISTING, FlowTuple("sctp", ("10.244.1.1", 50000), ("10.96.0.17", 80))) is None
    assert parse_connection([], FlowTuple("tcp", ("10.244.1.1", 50000), ("10.96.0.17", 80))) is None

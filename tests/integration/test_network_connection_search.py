"""Open TCP connections that a router gives to another node: use of the tables of `network/connection_search.py`."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct

import pytest

from bridgehead.network import connection_search
from bridgehead.network.connection_search import SearchTables

from .namespaced import in_namespace
from .speaker_world import inside, make_network, node_ip, run_on, vip
from .test_network_handover import (
    ADDRESSES,
    PORT,
    ask,
    check_carried_on,
    client_packet,
    connect_from,
    counted,
    listen,
    send_to,
    use_port,
)

pytestmark = pytest.mark.integration

NODES = ("node1", "node2", "node3")
FLOOD = 1000
COUNTERS = """
table inet test {
    counter copies { }
    chain prerouting {
        type filter hook prerouting priority raw
        ip saddr 10.0.0.2 ip ttl > 250 counter name copies
        ip6 saddr fd00:10::2 ip6 hoplimit > 250 counter name copies
    }
}
"""


def flood(version: int) -> None:
    """Send packets of a connection that no node knows, from a client that does not exist."""
    source, address = vip(2, version), vip(10, version)
    segment = struct.pack("!HHIIBBHHH", 4000, PORT, 1, 1, 5 << 4, 0x10, 1024, 0, 0)
    stray = client_packet(source, address, segment)
    with socket.socket(socket.AF_INET6 if version == 6 else socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        for _ in range(FLOOD):
            raw.sendto(stray, (address, 0))


@in_namespace
def test_connections_go_on_at_the_one_of_all_nodes_that_knows_them() -> None:
    make_network()
    connection_search._CLIENT_RATE = 20  # in the process of this test
    for node in NODES:
        run_on(node, "nft", COUNTERS)
    for version in (4, 6):
        check_connections(version)


def check_connections(version: int) -> None:
    address = vip(10, version)
    announced = [ipaddress.ip_address(vip(number, version)) for number in (10, 11)]
    with contextlib.ExitStack() as stack:
        first, second, _ = (stack.enter_context(listen(node, version)) for node in NODES)
        tables = {}
        for node in NODES:
            with inside(node):
                tables[node] = stack.enter_context(SearchTables())
            others = [ipaddress.ip_address(node_ip(other, version)) for other in NODES if other != node]
            tables[node].update(announced, announced[:1], others)
        send_to("node2")
        port = use_port(second, address)
        send_to("node1")
        again = stack.enter_context(connect_from(port, address))
        again_end = stack.enter_context(first.accept()[0])
        again_end.settimeout(20)
        old = stack.enter_context(socket.create_connection((address, PORT), 20))
        old_end = stack.enter_context(first.accept()[0])
        old_end.settimeout(20)

        send_to("node2")  # which asks node1 and node3; node3 has a server, too, and does not reset its copies
        for _ in range(3):
            check_carried_on(old, old_end)
            check_carried_on(again, again_end)
        flood(version)
        check_carried_on(old, old_end)
        assert 20 <= counted("node3", "copies") < FLOOD / 2
        new = stack.enter_context(socket.create_connection((address, PORT), 20))
        new_end = stack.enter_context(second.accept()[0])
        new_end.settimeout(20)
        check_carried_on(new, new_end)

        many = [ipaddress.ip_address(vip(12, version)) + number for number in range(ADDRESSES)]
        tables["node1"].update(announced + many, many, others)
        for node in NODES:
            tables[node].update(announced, announced[1:], [])
        check_carried_on(new, new_end)
        with pytest.raises(ConnectionResetError):
            ask(old)
        for node in NODES:
            tables[node].close()
            assert "bridgehead" not in run_on(node, "nft", "list", "ruleset")

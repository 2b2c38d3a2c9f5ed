"""Open TCP connections to an address that moves to another node: use of the tables of `network/handover_tables.py`."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import socket
import struct

import pytest

from bridgehead.network.handover_tables import HandoverTables

from .namespaced import in_namespace, sh
from .speaker_world import IPV6_FREEBIND, inside, make_network, node_ip, run_on, vip
from .test_kubelet_spoofing import TCP, packet

pytestmark = pytest.mark.integration

PORT = 80
ADDRESSES = 3000  # more than one transaction can have
TCP_REPAIR, TCP_REPAIR_QUEUE, TCP_QUEUE_SEQ, TCP_RECV_QUEUE = 19, 20, 21, 1  # linux/tcp.h
MACS = {"node1": "02:00:00:00:01:01", "node2": "02:00:00:00:01:02", "node3": "02:00:00:00:01:03"}
COPIES = """
table inet test {
    counter received { }
    counter passed { }
    chain received {
        type filter hook prerouting priority raw
        meta l4proto tcp ip ttl > 250 counter name received
        meta l4proto tcp ip6 hoplimit > 250 counter name received
    }
    chain passed {
        type filter hook prerouting priority filter
        meta l4proto tcp ip ttl > 250 counter name passed
        meta l4proto tcp ip6 hoplimit > 250 counter name passed
    }
}
"""


ip = ipaddress.ip_address


def send_to(node: str) -> None:
    """Let the client believe that a node has the address, as after a gratuitous announcement."""
    for version in (4, 6):
        sh(f"ip neigh replace {vip(10, version)} lladdr {MACS[node]} dev fabric nud permanent")


def listen(node: str, version: int) -> socket.socket:
    with inside(node):
        server = socket.socket(socket.AF_INET6 if version == 6 else socket.AF_INET)
        if version == 6:
            server.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
        server.bind((vip(10, version), PORT))
        server.listen()
    server.settimeout(20)
    return server


def use_port(server: socket.socket, address: str) -> int:
    """Return the port of a client's connection that has ended, which the node's connection tracking remembers."""
    with socket.create_connection((address, PORT), 20) as client:
        server.accept()[0].close()  # the server's end waits for late packets, not the client's
        assert client.recv(100) == b""
        return int(client.getsockname()[1])


def connect_from(port: int, address: str) -> socket.socket:
    """Connect from a port that was used a moment ago."""
    client = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    client.settimeout(20)
    client.bind(("", port))
    client.connect((address, PORT))
    return client


def check_carried_on(client: socket.socket, server: socket.socket) -> None:
    """Check that the server receives what the client sends, and the other way round."""
    client.sendall(b"question")
    assert server.recv(100) == b"question"
    server.sendall(b"answer")
    assert client.recv(100) == b"answer"


def ask(client: socket.socket) -> None:
    """Send something and receive. A late acknowledgement may have had an answer before."""
    client.sendall(b"question")
    client.recv(100)


def counted(node: str, counter: str) -> int:
    """Return how many packets a node's nft has counted since the last call."""
    found = json.loads(run_on(node, "nft", "-j", "reset", "counter", "inet", "test", counter))
    return sum(entry["counter"]["packets"] for entry in found["nftables"] if "counter" in entry)


def client_packet(source: str, address: str, segment: bytes) -> bytes:
    """Return a packet of TCP, with the TTL or hop limit with which clients' systems begin."""
    found = bytearray(packet(source, address, TCP, segment, 16))
    if ":" in address:
        found[7] = 64
    return bytes(found)


def send_outside_window(client: socket.socket, address: str) -> None:
    """Send a segment of a client's connection that connection tracking takes for invalid, with a right acknowledgement.

    A machine without the connection answers it with a reset that the client accepts.
    """
    client.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    client.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_QUEUE, TCP_RECV_QUEUE)
    received = client.getsockopt(socket.IPPROTO_TCP, TCP_QUEUE_SEQ) % (1 << 32)
    client.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_QUEUE, 2)
    sent = client.getsockopt(socket.IPPROTO_TCP, TCP_QUEUE_SEQ)
    client.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, -1)  # without a window probe
    source, port = client.getsockname()[:2]
    far = (sent + (1 << 31)) % (1 << 32)
    segment = struct.pack("!HHIIBBHHH", port, PORT, far, received, 5 << 4, 0x10, 1024, 0, 0) + b"stray"
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        raw.sendto(client_packet(source, address, segment), (address, 0))


@in_namespace
def test_connections_go_on_at_the_node_that_knows_them() -> None:
    make_network()
    for version in (4, 6):
        check_connections(version)


@in_namespace
def test_a_connection_that_no_node_knows_is_reset_while_two_nodes_have_rules_for_each_other() -> None:
    make_network()
    for version in (4, 6):
        address = vip(10, version)
        with contextlib.ExitStack() as stack:
            nodes = ("node1", "node2", "node3")
            third = [stack.enter_context(listen(node, version)) for node in nodes][-1]
            send_to("node3")
            client = stack.enter_context(socket.create_connection((address, PORT), 20))
            stack.enter_context(third.accept()[0])
            for node, other in (("node1", "node2"), ("node2", "node1")):
                with inside(node):
                    tables = stack.enter_context(HandoverTables())
                tables.update({ip(address): ip(node_ip(other, version))}, [])
            send_to("node1")
            with pytest.raises(ConnectionResetError):
                ask(client)


@in_namespace
def test_a_doubtful_packet_passes_between_two_nodes_once() -> None:
    """Either takes the other for the old holder. A packet that came back would be forwarded, and then copied again."""
    make_network()
    for node in ("node1", "node2"):
        run_on(node, "nft", COPIES)
    for version in (4, 6):
        address = vip(10, version)
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(listen("node1", version))
            for node, other in (("node1", "node2"), ("node2", "node1")):
                with inside(node):
                    tables = stack.enter_context(HandoverTables())
                tables.update({ip(address): ip(node_ip(other, version))}, [])
            send_to("node1")
            client = stack.enter_context(socket.create_connection((address, PORT), 20))
            end = stack.enter_context(server.accept()[0])
            end.settimeout(20)
            send_outside_window(client, address)
            while not counted("node2", "received"):  # the test has a deadline
                pass
            check_carried_on(client, end)
            assert counted("node1", "passed") == 0


def check_connections(version: int) -> None:
    address = vip(10, version)
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(listen(node, version)) for node in ("node1", "node2"))
        with inside("node1"):
            lost = stack.enter_context(HandoverTables())
        with inside("node2"), HandoverTables():  # those of another speaker
            tables = stack.enter_context(HandoverTables())
        send_to("node2")
        port = use_port(second, address)
        send_to("node1")
        again = stack.enter_context(connect_from(port, address))
        again_end = stack.enter_context(first.accept()[0])
        again_end.settimeout(20)
        old = stack.enter_context(socket.create_connection((address, PORT), 20))
        old_end = stack.enter_context(first.accept()[0])
        old_end.settimeout(20)
        check_carried_on(old, old_end)
        closing = stack.enter_context(socket.create_connection((address, PORT), 20))
        closing_end = stack.enter_context(first.accept()[0])
        closing_end.settimeout(20)

        send_to("node2")
        nodes = {address: node_ip("node1", version), vip(11, version): node_ip("node3", version)}
        tables.update({ip(moved): ip(node) for moved, node in nodes.items()}, [])
        lost.update({}, [ip(address)])
        check_carried_on(old, old_end)
        check_carried_on(again, again_end)
        closing.shutdown(socket.SHUT_WR)  # its FIN is invalid for connection tracking that does not know the connection
        assert closing_end.recv(100) == b""
        # A new connection is the new node's, from its first packet on.
        new = stack.enter_context(socket.create_connection((address, PORT), 20))
        new_end = stack.enter_context(second.accept()[0])
        new_end.settimeout(20)
        check_carried_on(new, new_end)
        send_outside_window(new, address)
        check_carried_on(new, new_end)
        many = ipaddress.ip_network("10.2.0.0/16" if version == 4 else "fd00:2::/112")
        node = ip(node_ip("node3", version))
        tables.update({many[number]: node for number in range(ADDRESSES)}, [])
        tables.update({ip(vip(11, version)): ip(node_ip("node1", version))}, [])
        check_carried_on(new, new_end)
        with pytest.raises(ConnectionResetError):
            ask(old)
        tables.close()
        assert "bridgehead" not in run_on("node2", "nft", "list", "ruleset")

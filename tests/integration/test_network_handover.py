"""Open TCP connections to an address that moves to another node: use of the tables of `network/handover.py`."""

from __future__ import annotations

import contextlib
import socket

import pytest

from bridgehead.network.handover import HandoverTables

from .namespaced import in_namespace, sh
from .speaker_world import IPV6_FREEBIND, inside, make_network, node_ip, run_on, vip

pytestmark = pytest.mark.integration

PORT = 80
MACS = {"node1": "02:00:00:00:01:01", "node2": "02:00:00:00:01:02"}


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


def check_carried_on(client: socket.socket, server: socket.socket) -> None:
    """Check that the server receives what the client sends, and the other way round."""
    client.sendall(b"question")
    assert server.recv(100) == b"question"
    server.sendall(b"answer")
    assert client.recv(100) == b"answer"


@in_namespace
def test_connections_go_on_at_the_node_that_knows_them() -> None:
    make_network()
    for version in (4, 6):
        check_connections(version)


def check_connections(version: int) -> None:
    address = vip(10, version)
    with contextlib.ExitStack() as stack:
        first, second = (stack.enter_context(listen(node, version)) for node in ("node1", "node2"))
        send_to("node1")
        old = stack.enter_context(socket.create_connection((address, PORT), 20))
        old_end = stack.enter_context(first.accept()[0])
        old_end.settimeout(20)
        check_carried_on(old, old_end)

        send_to("node2")
        with inside("node2"):
            tables = stack.enter_context(HandoverTables())
        tables.set_nodes({address: node_ip("node1", version), vip(11, version): node_ip("node3", version)})
        check_carried_on(old, old_end)
        # A new connection is the new node's, from its first packet on.
        new = stack.enter_context(socket.create_connection((address, PORT), 20))
        new_end = stack.enter_context(second.accept()[0])
        new_end.settimeout(20)
        check_carried_on(new, new_end)
        tables.set_nodes({vip(11, version): node_ip("node1", version)})
        check_carried_on(new, new_end)
        old.sendall(b"question")
        with pytest.raises(ConnectionResetError):
            old.recv(100)
        tables.close()
        assert "bridgehead" not in run_on("node2", "nft", "list", "ruleset")

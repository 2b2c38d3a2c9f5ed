"""The failure detector's engine of heartbeats with real sockets."""

from __future__ import annotations

import socket

import pytest

from bridgehead.balancer.detection.engine import Message
from bridgehead.balancer.detection.heartbeats import Heartbeats

from .namespaced import in_namespace, sh

pytestmark = pytest.mark.integration

PORT = 7946


@in_namespace
def test_a_node_without_its_port_announces_nothing_until_it_has_it() -> None:
    sh("ip link set lo up")
    reports: list[Message] = []

    def report(message: Message) -> bool:
        reports.append(message)
        return True

    def members() -> list[str]:
        found: list[str] = [message["members"] for message in reports if "members" in message][-1]
        return found

    engine = Heartbeats(report)
    peers = {"to": "heartbeats", "peers": {"node2": "127.0.0.2"}}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("", PORT))
        for content in ({"this": "node1", "port": PORT, "key": "00" * 16}, peers, {"ready": True}):
            engine.on_message({"to": "heartbeats", **content}, 0.0)
        engine.on_timer(10.0)
        errors = [message["error"] for message in reports if "error" in message]
        assert set(errors) == {f"cannot bind UDP port {PORT}: Address already in use"}
        assert members() == []
    engine.on_message(peers, 11.0)
    assert [message for message in reports if "error" in message][-1]["error"] == ""
    engine.on_timer(12.0)
    assert members() == ["node1"]  # no other speaker runs
    engine.on_end(13.0)

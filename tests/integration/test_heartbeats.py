"""The failure detector's heartbeats: the engine with real sockets, and its process."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

from bridgehead.balancer.detection.detector import Detector
from bridgehead.balancer.detection.engine import Message
from bridgehead.balancer.detection.heartbeats import Heartbeats
from bridgehead.balancer.detection.membership import Change
from bridgehead.balancer.detection.process import starting_early

from .api_world import DEADLINE
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


@in_namespace
def test_a_speaker_that_did_not_read_gets_the_reasons_of_all_changes_later() -> None:
    sh("ip link set lo up")
    reports: list[Message] = []
    reads = False

    def report(message: Message) -> bool:
        reports.append(message)
        return reads

    engine = Heartbeats(report)
    start = {"this": "node1", "port": PORT, "key": "00" * 16, "peers": {"node2": "127.0.0.2"}, "ready": True}
    engine.on_message({"to": "heartbeats", **start}, 0.0)
    membership = engine._membership
    assert membership is not None
    changes = [Change("node2", True, "its heartbeats arrive", 0.0), Change("node2", False, "no heartbeats", 0.3)]
    membership.changes.append(changes[0])
    engine.on_timer(10.0)
    assert reports[-1]["changes"] == changes[:1]
    membership.changes.append(changes[1])
    reads = True
    engine.on_timer(11.0)
    assert reports[-1]["changes"] == changes
    count = len(reports)
    engine.on_message({"to": "heartbeats", "ready": False}, 12.0)
    assert [message["changes"] for message in reports[count:]] == [[]]
    engine.on_end(13.0)


@in_namespace
async def test_a_detector_that_was_stopped_gets_every_message() -> None:
    sh("ip link set lo up")
    detector = Detector()
    errors: list[str] = []
    detector.on_message("heartbeats", lambda message: errors.append(message.get("error", "")))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("", PORT))
        os.kill(detector.pid, signal.SIGSTOP)
        for _ in range(1000):  # more than the channel's buffer has space for
            detector.send({"to": "heartbeats", "links": ["x" * 1000]})
        detector.send({"to": "heartbeats", "this": "node1", "port": PORT, "peers": {"node2": "127.0.0.2"}})
        os.kill(detector.pid, signal.SIGCONT)
        running = asyncio.create_task(detector.run())
        async with asyncio.timeout(DEADLINE):
            while not errors:  # noqa: ASYNC110 - the event is in another process
                await asyncio.sleep(0.01)
    assert errors[0] == f"cannot bind UDP port {PORT}: Address already in use"
    running.cancel()
    await asyncio.wait([running])


@in_namespace
def test_a_detector_that_was_started_early_is_used_or_ends() -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text().split()
    with starting_early():
        started = set(children.read_text().split()) - set(before)
        detector = Detector()
        assert {str(detector.pid)} == started
        detector.close()
    with starting_early():
        assert children.read_text().split() != before
    assert children.read_text().split() == before

"""The state machine of BGP sessions, against a router at the other end of a pair of sockets."""

from __future__ import annotations

import ipaddress
import socket
import struct
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from bridgehead.balancer.bgp import exabgp_session
from bridgehead.balancer.bgp.exabgp import (
    ENVIRONMENT,
    Attributes,
    SessionSettings,
    render_route,
    render_settings,
)
from bridgehead.balancer.bgp.exabgp_listening import Listening
from bridgehead.balancer.bgp.exabgp_messages import Answer, Request
from bridgehead.balancer.bgp.exabgp_session import Session

pytestmark = pytest.mark.integration

LOOPBACK = ipaddress.ip_address("127.0.0.1")
SETTINGS = SessionSettings(LOOPBACK, LOOPBACK, 1179, 64512, 64513, "127.0.0.1", next_hops={4: "127.0.0.1", 6: "::1"})
MARKER = b"\xff" * 16
OPEN, UPDATE, NOTIFICATION, KEEPALIVE, ROUTE_REFRESH = 1, 2, 3, 4, 5
PART = 1000  # bytes of a message that are sent at a time
TURNS = 20_000


def message(kind: int, body: bytes = b"") -> bytes:
    return MARKER + struct.pack("!HB", 19 + len(body), kind) + body


def open_message(options: bytes = b"", hold_time: int = 90) -> bytes:
    return message(OPEN, struct.pack("!BHH4sB", 4, 64513, hold_time, bytes([10, 9, 9, 9]), len(options)) + options)


BOTH_FAMILIES = b"\x02\x06\x01\x04\x00\x01\x00\x01" + b"\x02\x06\x01\x04\x00\x02\x00\x01"  # RFC 4760


class Narrow(socket.socket):
    """A socket that takes messages in parts, as a TCP connection with little room does."""

    def send(self, data: Any, flags: int = 0) -> int:
        return super().send(data[:PART], flags)


class World:
    """A session, and its router's end of the connection."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.router: Any = None
        self.answers: list[Answer] = []
        self.received = b""

        def make_socket(settings: SessionSettings) -> socket.socket:
            own, self.router = socket.socketpair()
            for end in (own, self.router):
                end.setblocking(False)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # Linux gives some KiB
            return Narrow(fileno=own.detach())

        def connecting(sock: socket.socket, settings: SessionSettings) -> Generator[bool, None, None]:
            yield False

        monkeypatch.setattr(exabgp_session, "make_socket", make_socket)
        monkeypatch.setattr(exabgp_session, "connecting", connecting)
        request = Request("open", "router", text=render_settings(SETTINGS))
        self.session = Session(request, 0, self.answers.append, Listening())

    def run_until(self, condition: Callable[[], object], *, reads: bool = True) -> None:
        for _ in range(TURNS):
            self.session.run(time.monotonic())
            if reads:
                self.read()
            if condition():
                return
        raise AssertionError(f"never; answers: {self.answers}")

    def read(self) -> None:
        try:
            while self.router is not None and (data := self.router.recv(65536)):
                self.received += data
        except (BlockingIOError, ConnectionResetError):
            return

    def establish(self, opening: bytes) -> None:
        self.run_until(lambda: self.received)
        self.router.send(opening + message(KEEPALIVE))
        self.run_until(lambda: self.kinds() == ["up"])

    def kinds(self) -> list[str]:
        return [answer.kind for answer in self.answers if answer.kind in ("up", "down")]

    def messages(self) -> list[tuple[int, bytes]]:
        """Return all that the router has received, which consists of whole messages."""
        return list(parse(self.received))

    def announce(self, count: int, first: str = "fd00::", next_hop: str = "::1") -> None:
        for number in range(count):
            prefix = ipaddress.ip_network(ipaddress.ip_address(first) + number)
            self.session.take(Request("route", "router", 1, render_route(prefix, Attributes(next_hop))))


def parse(data: bytes) -> Iterator[tuple[int, bytes]]:
    while data:
        assert data.startswith(MARKER)
        length, kind = struct.unpack("!HB", data[16:19])
        assert len(data) >= length, "a part of a message"
        yield kind, data[19:length]
        data = data[length:]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    from exabgp.environment import getenv
    from exabgp.logger import log

    log.init(getenv())
    made = World(monkeypatch)
    yield made
    made.session.end()
    if made.router is not None:
        made.router.close()


def test_both_families_are_carried(world):
    world.establish(open_message(BOTH_FAMILIES))
    assert world.answers[-1].versions == (4, 6)
    world.announce(3)
    world.run_until(lambda: [kind for kind, _ in world.messages()].count(UPDATE) == 3)


def test_a_router_that_lists_no_families_gets_ipv4_routes(world):
    world.establish(open_message())
    assert world.answers[-1].versions == (4,)
    world.announce(1, "10.1.0.1", "127.0.0.1")
    world.announce(1)  # is not sent: the router has not asked for IPv6
    world.session.take(Request("end of routes", "router", 1, "4"))
    world.run_until(lambda: world.messages()[-1] == (UPDATE, bytes(4)))
    updates = [body for kind, body in world.messages() if kind == UPDATE]
    assert len(updates) == 2
    assert updates[0].endswith(bytes([32, 10, 1, 0, 1]))


def test_routes_that_the_router_wants_again(world):
    world.establish(open_message(BOTH_FAMILIES))
    for family in (2, 1, 2, 9):  # the last one is not of the session
        world.router.send(message(ROUTE_REFRESH, struct.pack("!HBB", family, 0, 1)))
    world.run_until(lambda: "refresh" in {answer.kind for answer in world.answers})
    for _ in range(20):
        world.session.run(time.monotonic())
    asked = [answer.number for answer in world.answers if answer.kind == "refresh"]
    assert asked == [6], "the others follow later, together"
    world.session._refreshed_at -= 2
    world.run_until(lambda: len([answer for answer in world.answers if answer.kind == "refresh"]) == 3)
    assert [answer.number for answer in world.answers[-2:]] == [4, 6]


def test_a_second_open_message_ends_the_session(world):
    world.establish(open_message(BOTH_FAMILIES))
    world.router.send(open_message(BOTH_FAMILIES))
    world.run_until(lambda: world.kinds() == ["up", "down"])
    world.read()
    kind, body = world.messages()[-1]
    assert kind == NOTIFICATION
    assert body[:2] == bytes([5, 3])
    assert "Established" in world.answers[-1].reason


@pytest.mark.parametrize("kind", [UPDATE, NOTIFICATION, 77])
def test_nonsense_instead_of_an_open_message(world, kind):
    world.run_until(lambda: world.received)
    world.router.send(message(kind, b"\x06\x02" + b"\xff" * 40))
    world.run_until(lambda: world.kinds() == ["down"])


def test_a_router_that_connects_and_stays_silent(world, monkeypatch):
    world.run_until(lambda: world.received)
    for _ in range(10):
        world.session.run(time.monotonic())
    assert world.kinds() == []
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 241)
    world.run_until(lambda: world.kinds() == ["down"])
    world.read()
    assert world.messages()[-1] == (NOTIFICATION, bytes([4, 0]))


def test_a_notification_follows_whole_messages_to_a_router_that_reads_late(world):
    world.establish(open_message(BOTH_FAMILIES))
    world.announce(20_000, "10.1.0.0", "127.0.0.1")  # in messages larger than a buffer
    for _ in range(50):
        world.session.run(time.monotonic())  # until no buffer has room
    world.router.send(b"nonsense" * 10)
    for _ in range(50):
        world.session.run(time.monotonic())
    world.run_until(lambda: world.kinds() == ["up", "down"])
    world.read()
    kinds = [kind for kind, _ in world.messages()]
    assert kinds[-1] == NOTIFICATION
    assert 1 <= kinds.count(UPDATE) < 20


def test_a_session_that_ends_soon_again_and_again_is_not_begun_at_once(world):
    pauses = []
    for number in range(1, 7):
        world.received = b""
        world.run_until(lambda: world.received)
        world.router.send(open_message(BOTH_FAMILIES) + message(KEEPALIVE))
        world.run_until(lambda number=number: world.kinds().count("up") == number)
        world.router.close()
        world.router = None
        world.run_until(lambda number=number: world.kinds().count("down") == number)
        pauses.append(world.session._next_attempt - time.monotonic())
        world.session._next_attempt = 0.0
    assert pauses[0] < 0.11
    assert pauses[-1] > 0.5

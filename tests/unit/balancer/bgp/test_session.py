"""Decisions about the BGP session with one peer."""

from __future__ import annotations

import asyncio
import ipaddress

import pytest

from bridgehead.balancer.bgp.announced_routes import Prefix, Route, RoutePlan
from bridgehead.balancer.bgp.announcer import why_outdated
from bridgehead.balancer.bgp.exabgp import SessionSettings
from bridgehead.balancer.bgp.exabgp_messages import Answer, Request
from bridgehead.balancer.bgp.exabgp_process import Channel, ExaBgp
from bridgehead.balancer.bgp.session import Misconfigured, NotConfigurable, PeerSession, is_awaited
from tests.unit.virtual_time import run_virtual


async def configure() -> SessionSettings:
    raise NotConfigurable("no route to 10.0.0.1")


def make_session() -> PeerSession:
    return PeerSession("router", RoutePlan(), configure, lambda session: None, ExaBgp())


@pytest.mark.parametrize(
    ("was_connected", "was_established", "waits_at_1", "waits_at_10", "waits_at_20"),
    [
        (False, False, True, False, False),  # a router that is dead delays neither a rollout nor `up` for long
        (True, False, True, True, False),  # one that is there, but refuses sessions for a while
        (True, True, False, False, False),
    ],
)
def test_a_rollout_waits_for_sessions_that_can_come(
    was_connected, was_established, waits_at_1, waits_at_10, waits_at_20
):
    session = make_session()
    session.was_connected, session.was_established = was_connected, was_established
    session.first_attempt_at = 100.0
    waits = [is_awaited(session, seconds, 100.0 + seconds) for seconds in (1, 10, 20)]
    assert waits == [waits_at_1, waits_at_10, waits_at_20]


def test_a_session_that_has_not_begun_yet_is_waited_for_shortly():
    for session in (None, make_session()):
        assert is_awaited(session, 3, 103.0)
        assert not is_awaited(session, 10, 110.0)


def test_a_session_that_cannot_come_is_not_waited_for():
    session = make_session()
    session.reason = "cannot connect to 10.0.0.1:179: connection refused"
    assert not is_awaited(session, 1, 101.0)
    session.first_attempt_at = 100.0
    assert not is_awaited(session, 1, 101.0)


@pytest.mark.parametrize(
    ("changes", "connecting", "established"),
    [
        ({}, "", ""),
        ({"password": "b"}, "its password has changed", "its password has changed"),
        # The old address is still there: another path may have been found by chance.
        ({"local_address": ipaddress.ip_address("127.0.0.2")}, "the addresses of this node have changed", ""),
        ({"next_hops": {4: "127.0.0.1", 6: "::1"}}, "the addresses of this node have changed", ""),
    ],
)
def test_a_session_begins_anew_when_it_is_configured_otherwise(changes, connecting, established):
    loopback = ipaddress.ip_address("127.0.0.1")
    settings = SessionSettings(loopback, loopback, 179, 1, 2, "1.1.1.1", password="a", next_hops={4: "127.0.0.1"})
    fresh = settings._replace(**changes)
    assert why_outdated(settings, fresh, is_established=False) == connecting
    assert why_outdated(settings, fresh, is_established=True) == established


def test_an_established_session_ends_when_its_address_has_gone():
    loopback = ipaddress.ip_address("127.0.0.1")
    fresh = SessionSettings(loopback, loopback, 179, 1, 2, "1.1.1.1", next_hops={4: "127.0.0.1"})
    old = fresh._replace(local_address=ipaddress.ip_address("192.0.2.1"))
    assert why_outdated(old, fresh, is_established=True) == "the addresses of this node have changed"


def test_a_password_that_comes_late_is_found_soon():
    attempts = 0

    async def find() -> SessionSettings:
        nonlocal attempts
        attempts += 1
        raise Misconfigured("Secret metallb-system/router with the password does not exist")

    async def main() -> None:
        session = PeerSession("router", RoutePlan(), find, lambda session: None, ExaBgp())
        task = asyncio.create_task(session.run())
        await asyncio.sleep(600)
        before = attempts
        await asyncio.sleep(60)
        assert attempts - before == 12
        assert (session.status, session.reason[:6], session.is_misconfigured) == ("waiting", "Secret", True)
        task.cancel()

    run_virtual(main())


class _Exabgp:
    """An ExaBGP process that does nothing. `requests`: what it got, in order."""

    last_line = ""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.channel = Channel("router", self)  # type: ignore[arg-type]

    async def open(self, request: Request) -> Channel:
        return self.channel

    def send(self, request: Request) -> None:
        self.requests.append(request)
        if request.kind == "close":
            self.channel.put(Answer("closed", request.peer))

    async def forget(self, peer: str) -> None:
        pass


class _Plan(RoutePlan):
    def routes(self, peer: str) -> dict[Prefix, Route]:
        prefix = ipaddress.IPv4Network("10.9.0.1/32")
        return {prefix: Route(prefix)}


@pytest.mark.parametrize(
    ("graceful_restart", "is_last", "withdrawn"), [(False, False, 1), (True, False, 0), (True, True, 1)]
)
def test_routes_are_withdrawn_unless_another_session_follows(graceful_restart, is_last, withdrawn):
    async def settings() -> SessionSettings:
        loopback = ipaddress.ip_address("127.0.0.1")
        found = SessionSettings(loopback, loopback, 179, 1, 2, "1.1.1.1", next_hops={4: "127.0.0.1"})
        return found._replace(graceful_restart=graceful_restart)

    async def main() -> None:
        exabgp = _Exabgp()
        session = PeerSession("router", _Plan(), settings, lambda session: None, exabgp)  # type: ignore[arg-type]
        task = asyncio.create_task(session.run())
        exabgp.channel.put(Answer("up", "router", 1, versions=(4,)))
        await asyncio.sleep(0.1)
        assert session.status == "established"
        exabgp.requests.clear()
        session.is_last = is_last
        task.cancel()
        await asyncio.wait([task])
        assert [request.kind for request in exabgp.requests] == ["route"] * withdrawn + ["close"]

    run_virtual(main())


@pytest.mark.parametrize("listen_port", [0, 179])
def test_an_attempt_that_the_peer_has_accepted_goes_on(listen_port):
    async def settings() -> SessionSettings:
        loopback = ipaddress.ip_address("127.0.0.1")
        found = SessionSettings(loopback, loopback, 179, 1, 2, "1.1.1.1", next_hops={4: "127.0.0.1"})
        return found._replace(listen_port=listen_port)

    async def main() -> None:
        exabgp = _Exabgp()
        session = PeerSession("router", _Plan(), settings, lambda session: None, exabgp)  # type: ignore[arg-type]
        task = asyncio.create_task(session.run())
        await asyncio.sleep(21)
        attempts = [request.kind for request in exabgp.requests]
        assert attempts == (["open"] * 4 if not listen_port else [])
        assert session.reason == ("the peer has not connected" if listen_port else "no answer from 127.0.0.1:179")
        exabgp.channel.put(Answer("connected", "router"))
        await asyncio.sleep(60)  # a busy router
        assert len(exabgp.requests) == len(attempts)
        assert session.reason == "the peer sends no OPEN message"
        exabgp.channel.put(Answer("up", "router", 1, versions=(4,)))
        await asyncio.sleep(60)
        assert (session.status, session.reason) == ("established", "")
        task.cancel()
        await asyncio.wait([task])

    run_virtual(main())

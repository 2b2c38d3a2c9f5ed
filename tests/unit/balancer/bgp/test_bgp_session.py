"""Decisions about the BGP session with one peer."""

from __future__ import annotations

import pytest

from bridgehead.balancer.bgp.exabgp_process import ExaBgp
from bridgehead.balancer.bgp.routes import RoutePlan
from bridgehead.balancer.bgp.session import NotConfigurable, PeerSession, SessionSettings, is_awaited


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

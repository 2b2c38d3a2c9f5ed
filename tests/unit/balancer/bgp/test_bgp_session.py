"""Decisions about the BGP session with one peer."""

from __future__ import annotations

import pytest

from bridgehead.balancer.bgp.exabgp_process import ExaBgp
from bridgehead.balancer.bgp.routes import RoutePlan
from bridgehead.balancer.bgp.session import NotConfigurable, PeerSession, SessionSettings, is_awaited


async def configure() -> SessionSettings:
    raise NotConfigurable("no route to 10.0.0.1")


@pytest.mark.parametrize(
    ("was_connected", "was_established", "waits_at_3", "waits_at_10", "waits_at_20"),
    [
        (False, False, True, False, False),  # a router that is dead delays neither a rollout nor `up` for long
        (True, False, True, True, False),  # one that is there, but refuses sessions for a while
        (True, True, False, False, False),
    ],
)
def test_a_rollout_waits_for_sessions_that_can_come(
    was_connected, was_established, waits_at_3, waits_at_10, waits_at_20
):
    session = PeerSession("router", RoutePlan(), configure, lambda session: None, ExaBgp())
    session.was_connected, session.was_established = was_connected, was_established
    assert [is_awaited(session, seconds) for seconds in (3, 10, 20)] == [waits_at_3, waits_at_10, waits_at_20]


def test_a_session_that_has_not_begun_yet_is_waited_for_shortly():
    assert is_awaited(None, 3)
    assert not is_awaited(None, 10)

"""Timers of established BGP sessions."""

from __future__ import annotations

import pytest

from bridgehead.balancer.bgp.exabgp_timers import Timers


@pytest.mark.parametrize(
    ("hold", "asked", "expected"),
    [(90, 0, [30, 60, 90]), (90, 10, [10, 20, 30]), (90, 60, [30, 60, 90]), (3, 0, [1, 2, 3]), (0, 0, []), (0, 5, [])],
)
def test_keepalive_messages_are_due(hold, asked, expected):
    timers = Timers(hold, asked, 1000.0)
    due = [second for second in range(1, 100) if timers.take_keepalive(1000.0 + second)]
    assert due[: len(expected)] == expected
    assert bool(due) == bool(expected)


def test_keepalive_messages_that_are_late_do_not_pile_up():
    timers = Timers(90, 0, 0.0)
    assert timers.take_keepalive(300.0)
    assert not timers.take_keepalive(301.0)
    assert timers.take_keepalive(330.0)


def test_a_silent_peer():
    timers = Timers(90, 0, 0.0)
    assert not timers.is_peer_silent(90.0)
    assert timers.is_peer_silent(90.5)
    timers.on_received(90.5)
    assert not timers.is_peer_silent(180.0)
    assert not Timers(0, 0, 0.0).is_peer_silent(1e6)


def test_a_peer_that_sends_but_does_not_read():
    timers = Timers(90, 0, 0.0)
    timers.on_received(481.0)
    assert timers.is_peer_stuck(481.0)
    timers.on_sent(481.0)
    assert not timers.is_peer_stuck(900.0)
    assert not Timers(300, 0, 0.0).is_peer_stuck(600.0)
    assert Timers(300, 0, 0.0).is_peer_stuck(600.5)
    assert not Timers(0, 0, 0.0).is_peer_stuck(1e6)

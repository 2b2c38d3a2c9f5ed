"""Other machines that claim addresses of this node: reports, and announcements against them."""

from __future__ import annotations

import ipaddress

from bridgehead.balancer.layer2.address_conflicts import Conflicts, Verdict

ADDRESS = ipaddress.ip_address("10.0.0.10")
IGNORED = Verdict(is_reported=False, is_defended=False)


def test_a_claim_is_reported_once_and_answered_once_a_second():
    conflicts = Conflicts()
    conflicts.hold(ADDRESS, 0.0)
    assert conflicts.judge(ADDRESS, b"m", 0.5) == IGNORED  # the former holder may not know yet
    assert conflicts.judge(ADDRESS, b"m", 10.0) == Verdict(is_reported=False, is_defended=True)
    assert conflicts.judge(ADDRESS, b"m", 10.5) == IGNORED
    assert conflicts.judge(ADDRESS, b"m", 11.1) == Verdict(is_reported=True, is_defended=True)
    assert conflicts.judge(ADDRESS, b"m", 12.2) == Verdict(is_reported=False, is_defended=True)
    assert conflicts.judge(ADDRESS, b"other", 12.3) == IGNORED
    assert conflicts.judge(ADDRESS, b"other", 13.1) == IGNORED
    assert conflicts.judge(ADDRESS, b"other", 13.3) == Verdict(is_reported=True, is_defended=True)
    assert conflicts.judge(ADDRESS, b"m", 11.1 + 3600) == Verdict(is_reported=True, is_defended=True)


def test_a_claim_that_ends_with_a_change_of_holders_is_not_reported():
    conflicts = Conflicts()
    conflicts.hold(ADDRESS, 0.0)
    conflicts.judge(ADDRESS, b"m", 10.0)
    conflicts.hold(ADDRESS, 10.5)  # the other one is a member again
    assert conflicts.judge(ADDRESS, b"m", 11.5) == IGNORED
    assert conflicts.judge(ADDRESS, b"m", 13.0) == Verdict(is_reported=False, is_defended=True)


def test_a_flood_of_random_machines_is_reported_a_few_times():
    conflicts = Conflicts()
    conflicts.hold(ADDRESS, 0.0)
    verdicts = [conflicts.judge(ADDRESS, (number % 100).to_bytes(6), 10 + number / 10_000) for number in range(20_000)]
    assert sum(verdict.is_reported for verdict in verdicts) == 4
    assert sum(verdict.is_defended for verdict in verdicts) == 2


def test_an_address_that_is_not_held_has_no_claims():
    conflicts = Conflicts()
    conflicts.hold(ADDRESS, 0.0)
    conflicts.release(ADDRESS)
    assert conflicts.judge(ADDRESS, b"m", 10.0) == IGNORED

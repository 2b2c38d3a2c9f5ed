"""Times of gratuitous announcements, and claims of other machines."""

from __future__ import annotations

import ipaddress

from bridgehead.balancer.layer2.claims import Claims, Verdict
from bridgehead.balancer.layer2.schedule import Due, Schedule

ADDRESS = ipaddress.ip_address("10.0.0.10")
IGNORED = Verdict(is_reported=False, is_defended=False)


def times(schedule: Schedule[str], until: float) -> list[tuple[float, str]]:
    found = []
    while (now := schedule.next_deadline()) <= until:
        found += [(round(now, 3), due.item) for due in schedule.due(now, 10)]
    return found


def test_a_burst_and_then_a_refresh():
    schedule: Schedule[str] = Schedule()
    schedule.begin(["a"], 10.0)
    assert times(schedule, 120) == [(t, "a") for t in (10.0, 10.05, 10.2, 11.1, 56.1, 101.1)]


def test_a_heal_begins_a_new_burst_instead_of_the_old():
    schedule: Schedule[str] = Schedule()
    schedule.begin(["a"], 0.0)
    schedule.due(0.0, 10)
    schedule.begin(["a", "b"], 0.02)
    assert times(schedule, 1) == [(0.02, "a"), (0.02, "b"), (0.07, "a"), (0.07, "b"), (0.22, "a"), (0.22, "b")]


def test_nothing_is_sent_after_a_stop():
    schedule: Schedule[str] = Schedule()
    schedule.begin(["a"], 0.0)
    schedule.stop("a")
    assert schedule.next_deadline() == float("inf")


def test_a_late_announcement_keeps_its_distance_to_the_next():
    schedule: Schedule[str] = Schedule()
    schedule.begin(["a"], 0.0)
    assert schedule.due(5.0, 10) == [Due("a", is_last=False)]
    assert schedule.next_deadline() == 5.05


def test_many_are_sent_in_parts():
    schedule: Schedule[int] = Schedule()
    schedule.begin(range(1000), 0.0)
    assert len(schedule.due(0.0, 100)) == 100
    assert schedule.next_deadline() == 0.0


def test_the_last_of_a_burst_and_every_refresh_look_for_duplicates():
    schedule: Schedule[str] = Schedule()
    schedule.begin(["a"], 0.0)
    flags = [schedule.due(schedule.next_deadline(), 1)[0].is_last for _ in range(6)]
    assert flags == [False, False, False, True, True, True]


def test_a_claim_is_reported_once_and_answered_once_a_second():
    claims = Claims()
    claims.hold(ADDRESS, 0.0)
    assert claims.judge(ADDRESS, b"m", 0.5) == IGNORED  # the former holder may not know yet
    assert claims.judge(ADDRESS, b"m", 10.0) == Verdict(is_reported=False, is_defended=True)
    assert claims.judge(ADDRESS, b"m", 10.5) == IGNORED
    assert claims.judge(ADDRESS, b"m", 11.1) == Verdict(is_reported=True, is_defended=True)
    assert claims.judge(ADDRESS, b"m", 12.2) == Verdict(is_reported=False, is_defended=True)
    assert claims.judge(ADDRESS, b"other", 12.3) == IGNORED
    assert claims.judge(ADDRESS, b"other", 13.1) == IGNORED
    assert claims.judge(ADDRESS, b"other", 13.3) == Verdict(is_reported=True, is_defended=True)
    assert claims.judge(ADDRESS, b"m", 11.1 + 3600) == Verdict(is_reported=True, is_defended=True)


def test_a_claim_that_ends_with_a_change_of_holders_is_not_reported():
    claims = Claims()
    claims.hold(ADDRESS, 0.0)
    claims.judge(ADDRESS, b"m", 10.0)
    claims.hold(ADDRESS, 10.5)  # the other one is a member again
    assert claims.judge(ADDRESS, b"m", 11.5) == IGNORED
    assert claims.judge(ADDRESS, b"m", 13.0) == Verdict(is_reported=False, is_defended=True)


def test_a_flood_of_random_machines_is_reported_a_few_times():
    claims = Claims()
    claims.hold(ADDRESS, 0.0)
    verdicts = [claims.judge(ADDRESS, (number % 100).to_bytes(6), 10 + number / 10_000) for number in range(20_000)]
    assert sum(verdict.is_reported for verdict in verdicts) == 4
    assert sum(verdict.is_defended for verdict in verdicts) == 2


def test_an_address_that_is_not_held_has_no_claims():
    claims = Claims()
    claims.hold(ADDRESS, 0.0)
    claims.release(ADDRESS)
    assert claims.judge(ADDRESS, b"m", 10.0) == IGNORED

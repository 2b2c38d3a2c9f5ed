"""Times of gratuitous announcements."""

from __future__ import annotations

from bridgehead.balancer.layer2.announcement_schedule import Due, Schedule


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

"""When the lab's first process starts a part again."""

from __future__ import annotations

from bridgehead.lab.supervisor import restart_delay


def waits(*lives: float) -> list[float]:
    """Before each run that follows one of these."""
    found: list[float] = []
    for lived in lives:
        found.append(restart_delay(found[-1] if found else 0.0, lived))
    return found


def test_a_part_that_does_not_come_up_waits_longer_each_time():
    assert waits(*[0.5] * 8) == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_a_part_that_worked_is_wanted_back_at_once_however_often_it_is_killed():
    assert waits(*[5.0] * 8) == [0.1] * 8
    assert waits(0.5, 0.5, 5.0, 0.5) == [0.1, 0.2, 0.1, 0.2]

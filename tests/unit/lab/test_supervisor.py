"""Times at which the lab's first process starts a part again."""

from __future__ import annotations

from bridgehead.lab.supervisor import restart_backoff, restart_delay


def waits(*lives: float) -> list[float]:
    """Return the waits before each run that follows one of these."""
    backoff = restart_backoff()
    return [restart_delay(backoff, lived) for lived in lives]


def test_a_part_that_fails_to_start_is_retried_with_back_off():
    assert waits(*[0.5] * 8) == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_a_part_that_worked_is_restarted_at_once():
    assert waits(*[5.0] * 8) == [0.1] * 8
    assert waits(0.5, 0.5, 5.0, 0.5) == [0.1, 0.2, 0.1, 0.2]

"""Delays after failures in a row."""

from __future__ import annotations

import pytest

from bridgehead.backoff import Backoff, KeyedBackoff, delay_after


def test_delays_double_up_to_the_maximum() -> None:
    assert [delay_after(failures, 1.0, 10.0) for failures in range(7)] == [0, 1, 2, 4, 8, 10, 10]


@pytest.mark.parametrize(("factor", "delays"), [(4.0, [0.1, 0.4, 1.0]), (1.0, [0.1, 0.1, 0.1])])
def test_the_factor_can_be_changed(factor: float, delays: list[float]) -> None:
    assert [delay_after(failures, 0.1, 1.0, factor) for failures in (1, 2, 3)] == delays


def test_any_number_of_failures_has_a_delay() -> None:
    assert delay_after(10**9, 0.01, 60.0) == 60.0


def test_a_success_resets_the_delay() -> None:
    backoff = Backoff(0.5, 2.0)
    assert [backoff.next() for _ in range(4)] == [0.5, 1.0, 2.0, 2.0]
    assert backoff.failures == 4
    backoff.reset()
    assert (backoff.failures, backoff.next()) == (0, 0.5)


@pytest.mark.parametrize(
    ("jitter", "delays"), [(0.0, [1.0, 2.0, 4.0]), (0.5, [0.75, 1.5, 3.0]), (1.0, [0.5, 1.0, 2.0])]
)
def test_jitter_shortens_a_delay_by_up_to_a_half(jitter: float, delays: list[float]) -> None:
    backoff = Backoff(1.0, 4.0, jitter=lambda: jitter)
    assert [backoff.next() for _ in range(3)] == delays


def test_keys_have_separate_delays() -> None:
    backoff: KeyedBackoff[str] = KeyedBackoff(10.0, 300.0)
    backoff.record("a", 0.0, 0.0)
    backoff.record("a", 5.0, 15.0)
    assert (backoff.delay("a"), backoff.delay("b")) == (20.0, 0.0)
    assert (backoff.until("a", 30.0), backoff.until("b", 30.0)) == (50.0, 30.0)
    assert (backoff.remaining("a", 30.0), backoff.remaining("a", 40.0), backoff.remaining("b", 30.0)) == (5.0, 0.0, 0.0)
    backoff.forget("a")
    assert backoff.delay("a") == 0.0


def test_a_key_is_forgotten_after_twice_the_maximum_without_a_failure() -> None:
    backoff: KeyedBackoff[str] = KeyedBackoff(1.0, 10.0)
    for moment in (0.0, 1.0, 2.0):
        backoff.record("a", moment, moment)
    assert backoff.until("a", 22.0) == 26.0
    assert backoff.until("a", 23.0) == 23.0
    backoff.record("a", 23.0, 23.0)
    assert backoff.delay("a") == 1.0


def test_pruning_drops_only_what_has_expired() -> None:
    backoff: KeyedBackoff[str] = KeyedBackoff(1.0, 10.0)
    backoff.record("old", 0.0, 0.0)
    backoff.record("new", 15.0, 15.0)
    backoff.prune(20.5)
    assert (backoff.delay("old"), backoff.delay("new")) == (0.0, 1.0)

"""Bursts: how many pods may be created for an owner now, and when there is room again."""

from __future__ import annotations

from bridgehead.controllers.workloads.bursts import BURST, BURST_SECONDS, Bursts
from bridgehead.objects.meta import ObjectKey

ONE, OTHER = ObjectKey("n", "one"), ObjectKey("n", "other")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_an_owner_waits_when_its_burst_is_used_up_and_others_do_not():
    clock = Clock()
    bursts = Bursts(clock)
    bursts.record(ONE, BURST - 1, clock.now)
    assert (bursts.room(ONE), bursts.wait(ONE)) == (1, None)
    clock.now += 4
    bursts.record(ONE, 1, clock.now)
    assert (bursts.room(ONE), bursts.wait(ONE)) == (0, BURST_SECONDS - 4)
    assert (bursts.room(OTHER), bursts.wait(OTHER)) == (BURST, None)
    clock.now += BURST_SECONDS - 4
    assert (bursts.room(ONE), bursts.wait(ONE)) == (BURST, None)


def test_the_time_that_creations_take_is_a_part_of_the_burst():
    clock = Clock()
    bursts = Bursts(clock)
    began, clock.now = clock.now, clock.now + 7
    bursts.record(ONE, BURST, began)
    assert (bursts.room(ONE), bursts.wait(ONE)) == (0, BURST_SECONDS - 7)
    began, clock.now = clock.now, clock.now + BURST_SECONDS
    bursts.record(OTHER, BURST, began)
    assert (bursts.room(OTHER), bursts.wait(OTHER)) == (BURST, None)


def test_a_clock_that_is_set_back_does_not_stop_an_owner():
    clock = Clock()
    bursts = Bursts(clock)
    bursts.record(ONE, BURST, clock.now)
    clock.now -= 500
    assert (bursts.room(ONE), bursts.wait(ONE)) == (BURST, None)


def test_rejected_creations_and_earlier_owners_of_the_name_leave_the_burst():
    bursts = Bursts(Clock())
    bursts.record(ONE, 0, 1000)
    assert bursts.room(ONE) == BURST
    bursts.record(ONE, BURST, 1000)
    bursts.forget(ONE)
    assert bursts.room(ONE) == BURST

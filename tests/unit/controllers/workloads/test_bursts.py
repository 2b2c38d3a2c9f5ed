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
    bursts.record(ONE, BURST - 1)
    assert (bursts.room(ONE), bursts.wait(ONE)) == (1, None)
    clock.now += 4
    bursts.record(ONE, 1)
    assert (bursts.room(ONE), bursts.wait(ONE)) == (0, BURST_SECONDS - 4)
    assert (bursts.room(OTHER), bursts.wait(OTHER)) == (BURST, None)
    clock.now += BURST_SECONDS - 4
    assert (bursts.room(ONE), bursts.wait(ONE)) == (BURST, None)


def test_a_clock_that_is_set_back_does_not_stop_an_owner():
    clock = Clock()
    bursts = Bursts(clock)
    bursts.record(ONE, BURST)
    clock.now -= 500
    assert (bursts.room(ONE), bursts.wait(ONE)) == (BURST, None)


def test_rejected_creations_and_earlier_owners_of_the_name_leave_the_burst():
    bursts = Bursts(Clock())
    bursts.record(ONE, 0)
    assert bursts.room(ONE) == BURST
    bursts.record(ONE, BURST)
    bursts.forget(ONE)
    assert bursts.room(ONE) == BURST

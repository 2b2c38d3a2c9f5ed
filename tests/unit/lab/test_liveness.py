"""Detection of a part of the lab that hangs."""

from __future__ import annotations

import pytest

from bridgehead.lab.liveness import Pulse, ThreadUse

RUNNING, WAITING, STOPPED = ThreadUse("R", 100.0), ThreadUse("S", 100.0), ThreadUse("T", 100.0)


def silent_for(seconds: float, *, every: float = 10.0) -> Pulse:
    """Return the pulse of a part that has beaten at 0, when it had used 100 s of the processor."""
    pulse = Pulse(30.0, 0.0)
    pulse.receive(RUNNING)
    now = 0.0
    while now < seconds:
        now = min(now + every, seconds)
        pulse.look(now)
    return pulse


@pytest.mark.parametrize(
    ("use", "hang"),
    [
        (STOPPED, "it did not answer for 30 s, it is stopped"),
        (WAITING, "it did not answer for 30 s, its event loop waits"),
        (ThreadUse("R", 125.0), "it did not answer for 30 s, its event loop is blocked"),
        (ThreadUse("R", 105.0), ""),  # it had the processor for 5 s only
        (ThreadUse("D", 100.0), ""),  # it waits for a disk
        (ThreadUse("t", 100.0), ""),  # a debugger stopped it
        (ThreadUse("Z", 100.0), ""),
        (None, ""),
    ],
)
def test_a_silent_part_hangs_unless_it_lacks_a_processor_or_a_disk(use: ThreadUse | None, hang: str) -> None:
    pulse = silent_for(30)
    assert pulse.is_silent
    assert pulse.describe_hang(use) == hang


def test_a_part_is_silent_after_the_time_without_a_heartbeat() -> None:
    pulse = silent_for(29.9)
    assert not pulse.is_silent
    pulse.receive(RUNNING)
    pulse.look(59.8)
    assert not pulse.is_silent


def test_a_part_may_start_for_longer() -> None:
    pulse = Pulse(30.0, 0.0)
    for now in range(0, 299, 5):
        pulse.look(now)
    assert not pulse.is_silent
    pulse.look(300)
    pulse.look(305)
    assert pulse.is_silent
    assert pulse.describe_hang(ThreadUse("R", 290.0)) == "it did not answer for 305 s, its event loop is blocked"


def test_time_in_which_nobody_listened_does_not_count() -> None:
    pulse = silent_for(19)
    pulse.look(10_000)  # the machine was suspended, or this process stopped
    assert not pulse.is_silent
    pulse.look(10_002)
    assert pulse.is_silent

"""A short run of random faults of speakers' processes; `benchmarks/speaker_chaos.py` has a longer one."""

from __future__ import annotations

import random

import pytest

from .namespaced import in_namespace
from .speaker_chaos import ACTIVE_SECONDS, Seen, longest_overlap, longest_silence, run_chaos

pytestmark = pytest.mark.integration

SECONDS = 4.0


@in_namespace
async def test_killed_and_stopped_speakers_leave_one_holder_and_nothing_else():
    await run_chaos(SECONDS, random.randrange(1 << 32))  # the log of a failed test has the seed


def test_the_observers_judgement():
    pause = ACTIVE_SECONDS / 2
    first = [Seen(number * pause, "10.0.0.10", "a") for number in range(10)]
    second = [Seen((number + 0.5) * pause, "10.0.0.10", "b") for number in range(6, 20)]
    other = [Seen(answer.at, "10.0.0.11", "b") for answer in first]
    assert longest_overlap([*first, *other]).seconds == 0  # another address
    overlap = longest_overlap(sorted([*first, *second, *other]))
    assert (round(overlap.seconds / pause, 3), overlap.address, overlap.macs) == (2.5, "10.0.0.10", ("a", "b"))
    late = [Seen(first[-1].at + 3 * ACTIVE_SECONDS, "10.0.0.10", "a")]  # one answer, not all the time
    assert longest_overlap(sorted([*first, *second[5:], *late])).seconds == 0
    silence = longest_silence([*first, *late], "10.0.0.10")
    assert (round(silence.seconds / ACTIVE_SECONDS, 3), silence.begun) == (3, first[-1].at)

"""Coroutines of which the first to end stops the others."""

from __future__ import annotations

import asyncio

import pytest

from bridgehead.racing import race


class Work:
    """A coroutine that runs for ever, and records its end."""

    has_ended = False

    async def run(self) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)  # cleaning up takes a moment
            self.has_ended = True


async def fail() -> None:
    raise ValueError("broken")


async def test_the_first_end_cancels_the_others():
    work = Work()
    await race(work.run(), asyncio.sleep(0))
    assert work.has_ended


async def test_an_error_is_raised_after_the_others_have_ended():
    work = Work()
    with pytest.raises(ValueError, match="broken"):
        await race(work.run(), fail())
    assert work.has_ended


async def test_a_race_that_is_cancelled_ends_all():
    works = Work(), Work()
    racing = asyncio.create_task(race(*(work.run() for work in works)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    racing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await racing
    assert all(work.has_ended for work in works)

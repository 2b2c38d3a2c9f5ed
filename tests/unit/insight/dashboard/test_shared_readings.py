import asyncio

import pytest

from bridgehead.insight.dashboard.shared_readings import SharedReadings


async def test_those_who_ask_at_the_same_time_share_one_reading():
    readings = 0

    async def read():
        nonlocal readings
        readings += 1
        await asyncio.sleep(0)
        return readings

    now = 0.0
    shared = SharedReadings(2.0, lambda: now)
    assert await asyncio.gather(shared.get("a", read), shared.get("a", read)) == [1, 1]
    assert await shared.get("a", read) == 1
    assert await shared.get("b", read) == 2
    now = 3.0
    assert await shared.get("a", read) == 3


async def test_errors_are_not_kept():
    failures = 0

    async def fail():
        nonlocal failures
        failures += 1
        raise ValueError(failures)

    shared = SharedReadings(60.0)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"\d"):
            await shared.get("a", fail)
    assert failures == 2


async def test_one_who_no_longer_waits_does_not_end_the_reading_of_the_others():
    release = asyncio.Event()

    async def read():
        await release.wait()
        return "read"

    shared = SharedReadings(60.0)
    first, second = (asyncio.create_task(shared.get("a", read)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    release.set()
    assert await second == "read"


async def test_readings_are_bounded():
    async def read():
        return 1

    shared = SharedReadings(60.0)
    for number in range(500):
        await shared.get(number, read)
    assert len(shared._tasks) <= 64
    assert len(shared._ended) <= 65


async def test_one_who_asks_just_when_a_reading_ends_gets_its_answer():
    async def read():
        return "read"

    shared = SharedReadings(60.0)
    assert await shared.get("a", read) == "read"
    shared._ended.clear()  # the event loop has not yet reported the end of the task
    assert await shared.get("a", read) == "read"

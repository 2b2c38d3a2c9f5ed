"""The number of requests that a client has under way at the same time."""

from __future__ import annotations

import asyncio

import pytest

from bridgehead.client.request_limit import FIRST_LANES, LONG_WAIT_SECONDS, MOST_LANES, Lanes


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class Requests:
    """Requests in the lanes of a client: those that wait, and those that are under way."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self.running = 0
        self.tasks: list[asyncio.Task[None]] = []

    async def begin(self, number: int) -> None:
        self.tasks += [asyncio.create_task(self._enter()) for _ in range(number)]
        await settle()

    async def _enter(self) -> None:
        await self.lanes.enter()
        self.running += 1

    async def end(self, seconds: float | None, kind: str = "POST") -> None:
        self.running -= 1
        self.lanes.leave(kind, seconds)
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def requests(clock):
    requests = Requests(Lanes(now=clock))
    yield requests
    for task in requests.tasks:
        task.cancel()
    await asyncio.gather(*requests.tasks, return_exceptions=True)


async def test_requests_share_a_few_lanes(requests):
    await requests.begin(100)
    assert requests.running == FIRST_LANES
    await requests.end(0.01)
    assert requests.running == FIRST_LANES


async def test_a_short_wait_opens_no_lane(clock, requests):
    await requests.begin(100)
    clock.seconds += LONG_WAIT_SECONDS / 2
    await requests.end(0.01)
    assert requests.lanes.lanes == FIRST_LANES


async def test_quick_answers_after_a_long_wait_open_lanes(clock, requests):
    await requests.begin(200)
    clock.seconds += 2 * LONG_WAIT_SECONDS
    for _ in range(100):
        await requests.end(0.05)
    assert requests.lanes.lanes == MOST_LANES


async def test_slow_answers_open_no_lane(clock, requests):
    await requests.begin(1)
    await requests.end(0.01)
    await requests.begin(100)
    for _ in range(10):
        clock.seconds += 2 * LONG_WAIT_SECONDS
        await requests.end(0.03)
    assert requests.lanes.lanes == FIRST_LANES
    assert requests.running == FIRST_LANES


async def test_answers_are_compared_with_those_to_the_same_kind_of_request(clock, requests):
    await requests.begin(1)
    await requests.end(0.001, "GET")
    await requests.begin(100)
    clock.seconds += 2 * LONG_WAIT_SECONDS
    await requests.end(0.05, "POST")
    assert requests.lanes.lanes == FIRST_LANES + 1


async def test_a_server_that_has_become_slower_for_long_is_asked_more_at_once(clock, requests):
    await requests.begin(1)
    await requests.end(0.01)
    clock.seconds += 300
    await requests.begin(100)
    clock.seconds += 2 * LONG_WAIT_SECONDS
    await requests.end(0.05)
    assert requests.lanes.lanes == FIRST_LANES + 1


async def test_requests_do_not_wait_for_those_that_hang(monkeypatch, requests):
    monkeypatch.setattr("bridgehead.client.request_limit.STALL_SECONDS", 0.001)
    await requests.begin(FIRST_LANES + 3)
    async with asyncio.timeout(10):
        await asyncio.wait(requests.tasks)
    assert requests.running == FIRST_LANES + 3


async def test_failed_requests_leave_their_lanes(clock, requests):
    await requests.begin(FIRST_LANES + 1)
    clock.seconds += 2 * LONG_WAIT_SECONDS
    await requests.end(None)
    assert requests.running == FIRST_LANES
    assert requests.lanes.lanes == FIRST_LANES


async def test_cancelled_requests_need_no_lane(requests):
    await requests.begin(FIRST_LANES + 2)
    requests.tasks[FIRST_LANES].cancel()
    await settle()
    await requests.end(0.01)
    assert requests.tasks[FIRST_LANES + 1].done()


async def test_a_request_that_is_cancelled_when_its_lane_comes_gives_it_on(requests):
    await requests.begin(FIRST_LANES + 2)
    requests.lanes.leave("POST", 0.01)  # the next one gets the lane, and is cancelled before it runs
    requests.tasks[FIRST_LANES].cancel()
    await settle()
    assert requests.tasks[FIRST_LANES + 1].done()
    assert not requests.tasks[FIRST_LANES + 1].cancelled()


async def test_lanes_are_few_again_after_an_idle_time(clock, requests):
    await requests.begin(100)
    clock.seconds += 2 * LONG_WAIT_SECONDS
    for _ in range(100):
        await requests.end(0.05)
    clock.seconds += 100
    await requests.begin(100)
    assert requests.running == FIRST_LANES

"""Priority levels: seats, turns of flows, refusals."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.flowcontrol.levels import Level, Overloaded
from bridgehead.apiserver.flowcontrol.seats import Limits
from tests.unit.examples import examples


async def waiters(level: Level, *flows: str) -> dict[str, asyncio.Task[None]]:
    """Return requests that wait in this order, by names such as `a1`, where `a` is the flow."""
    tasks = {}
    for flow in flows:
        tasks[flow] = asyncio.create_task(level.wait(flow[0]))
        await asyncio.sleep(0)
    return tasks


async def served(level: Level, tasks: dict[str, asyncio.Task[None]]) -> list[str]:
    """Give back one seat after the other; return the order in which the waiting requests get them."""
    order: list[str] = []
    while len(order) < len(tasks):
        level.leave()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        order += [name for name, task in tasks.items() if task.done() and name not in order]
    return order


async def test_flows_take_turns():
    level = Level("l", "", Limits(1, 100, 50))
    assert level.take()
    tasks = await waiters(level, "a1", "a2", "a3", "b1", "c1", "b2")
    assert not level.take(), "those who wait come first"
    assert await served(level, tasks) == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert (level.taken, level.waiting) == (1, 0)


async def test_an_exempt_level_never_waits():
    level = Level("exempt", "", Limits(None))
    assert all(level.take() for _ in range(10_000))


@pytest.mark.parametrize(
    ("limits", "flows", "why"),
    [
        (Limits(1), ["a"], "concurrency-limit"),
        (Limits(1, 2, 2), ["a1", "b1", "c1"], "queue-full"),
        (Limits(1, 9, 2), ["a1", "a2", "a3"], "queue-full"),
        (Limits(0), ["a"], "concurrency-limit"),
    ],
)
async def test_too_many_are_refused(limits, flows, why):
    level = Level("l", "", limits)
    level.take()
    *some, last = flows
    tasks = await waiters(level, *some)
    with pytest.raises(Overloaded, match=why):
        await level.wait(last[0])
    assert level.refused == {why: 1}
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)
    assert level.waiting == 0


async def test_waiting_ends():
    level = Level("l", "", Limits(1, 9, 9), wait_seconds=0.0)
    level.take()
    with pytest.raises(Overloaded, match="time-out"):
        await level.wait("a")
    assert (level.taken, level.waiting, level.refused) == (1, 0, {"time-out": 1})
    level.leave()
    assert level.take()


async def test_new_limits_apply_to_those_who_wait():
    level = Level("l", "", Limits(1, 9, 9))
    level.take()
    (task,) = (await waiters(level, "a")).values()
    level.limits = Limits(2, 9, 9)
    level.call_waiting()
    await task
    assert (level.taken, level.waiting) == (2, 0)


@examples(60)
@given(st.lists(st.sampled_from(["take a", "take b", "leave", "cancel"]), max_size=40))
def test_no_seat_is_lost_and_none_is_given_twice(steps):
    async def run() -> None:
        level = Level("l", "", Limits(2, 6, 4))
        holding: list[asyncio.Task[None] | None] = []
        waiting: list[asyncio.Task[None]] = []
        for step in steps:
            if step == "leave" and holding:
                holding.pop()
                level.leave()
            elif step == "cancel" and waiting:
                waiting.pop().cancel()
            elif step.startswith("take"):
                if level.take():
                    holding.append(None)
                else:
                    waiting.append(asyncio.create_task(level.wait(step)))
            for _ in range(4):
                await asyncio.sleep(0)
            done = [task for task in waiting if task.done()]
            waiting = [task for task in waiting if not task.done()]
            holding += [task for task in done if not task.cancelled() and task.exception() is None]
            assert level.taken == len(holding) <= 2
            assert level.waiting == len(waiting)
            assert not waiting or level.taken == 2
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(run())

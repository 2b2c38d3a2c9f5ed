"""Priority levels: seats, turns of flows, refusals."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.flowcontrol.levels import Level, Overloaded, Pool
from bridgehead.apiserver.flowcontrol.limits import Limits
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
    level = Level("l", "", Limits(1, 100, 50), Pool())
    assert level.take()
    tasks = await waiters(level, "a1", "a2", "a3", "b1", "c1", "b2")
    assert not level.take(), "those who wait come first"
    assert await served(level, tasks) == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert (level.taken, level.waiting) == (1, 0)


async def test_an_exempt_level_never_waits():
    level = Level("exempt", "", Limits(None), Pool())
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
    level = Level("l", "", limits, Pool())
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
    level = Level("l", "", Limits(1, 9, 9), Pool(), wait_seconds=0.0)
    level.take()
    with pytest.raises(Overloaded, match="time-out"):
        await level.wait("a")
    assert (level.taken, level.waiting, level.refused) == (1, 0, {"time-out": 1})
    level.leave()
    assert level.take()


async def test_new_limits_apply_to_those_who_wait():
    level = Level("l", "", Limits(1, 9, 9), Pool())
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
        level = Level("l", "", Limits(2, 6, 4), Pool())
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


def lending(*limits: Limits) -> tuple[Pool, list[Level]]:
    pool = Pool()
    levels = [Level(str(index), "", one, pool) for index, one in enumerate(limits)]
    pool.configure(levels)
    return pool, levels


def test_a_level_borrows_seats_that_others_lend():
    _, (busy, idle, mean) = lending(
        Limits(2, borrowable=2, lendable=0), Limits(4, borrowable=0, lendable=3), Limits(1, borrowable=9)
    )
    assert [busy.take() for _ in range(5)] == [True] * 4 + [False], "two seats of its own and two borrowed ones"
    assert [idle.take() for _ in range(4)] == [True, True, False, False], "one that is not lent, one of three"
    assert [mean.take() for _ in range(2)] == [True, False]
    busy.leave()
    assert [mean.take() for _ in range(2)] == [True, False]


async def test_freed_seats_go_to_levels_with_fewer_than_their_own():
    pool, (lender, borrower) = lending(
        Limits(2, queued=9, queued_of_flow=9, lendable=2), Limits(1, queued=9, queued_of_flow=9, borrowable=9)
    )
    assert all(borrower.take() for _ in range(3))
    wanted = await waiters(borrower, "a")
    own = await waiters(lender, "b", "c")
    borrower.leave()
    borrower.leave()
    await asyncio.gather(*own.values())
    assert (lender.taken, borrower.taken, pool.taken) == (2, 1, 2)
    lender.leave()
    await asyncio.gather(*wanted.values())
    assert (lender.taken, borrower.taken, pool.taken) == (1, 2, 2)


async def test_requests_of_a_deleted_level_go_on():
    pool, (level, other) = lending(Limits(1, queued=9, queued_of_flow=9), Limits(1, lendable=1))
    level.take()
    waiting = await waiters(level, "a", "b")
    pool.configure([other])
    level.dissolve()
    await asyncio.gather(*waiting.values())
    for _ in range(3):
        level.leave()
    assert (level.taken, pool.taken, other.take()) == (0, 0, True)


LIMITS = st.integers(0, 4).flatmap(
    lambda seats: st.builds(
        Limits, st.just(seats), st.just(9), st.just(9), lendable=st.integers(0, seats), borrowable=st.integers(0, 5)
    )
)


@given(st.lists(LIMITS, min_size=1, max_size=3), st.lists(st.tuples(st.booleans(), st.integers(0, 2)), max_size=40))
def test_lent_seats_are_bounded_and_used(limits, steps):
    async def run() -> None:
        pool, levels = lending(*limits)
        tasks = []
        for takes, number in steps:
            level = levels[number % len(levels)]
            if takes and not level.take() and level.waiting < 9:
                tasks.append(asyncio.create_task(level.wait("flow")))
            elif not takes and level.taken:
                level.leave()
            for _ in range(4):
                await asyncio.sleep(0)
            assert sum(one.taken for one in levels) <= sum(one.limits.seats or 0 for one in levels)
            assert pool.taken == sum(max(0, one.taken - one.limits.lower) for one in levels) <= pool.size
            for one in levels:
                assert one.taken <= one.limits.upper
                has_free = one.taken < one.limits.lower or (one.taken < one.limits.upper and pool.taken < pool.size)
                assert not (one.waiting and has_free)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())

"""Turns of streams: those that continue in one turn of the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter

from bridgehead.apiserver.http.turns import Turns


class World:
    """Streams that work for `seconds` of the clock in each of their turns, and the turns of the event loop."""

    def __init__(self, seconds: float) -> None:
        self.now = 0.0
        self.turns = Turns(lambda: self.now)
        self.loop_turn = 0
        self.worked: Counter[int] = Counter()  # pieces of work by turn of the loop
        self.order: list[int] = []
        self._seconds = seconds

    async def stream(self, number: int, pieces: int = 1) -> None:
        for _ in range(pieces):
            await self.turns.take()
            self.now += self._seconds
            self.worked[self.loop_turn] += 1
            self.order.append(number)

    async def run(self, streams: int, pieces: int = 1) -> None:
        async with asyncio.TaskGroup() as tasks:
            done = [tasks.create_task(self.stream(number, pieces)) for number in range(streams)]
            while not all(task.done() for task in done):
                await asyncio.sleep(0)
                self.loop_turn += 1


async def test_a_crowd_of_streams_continues_in_the_order_in_which_it_came() -> None:
    world = World(0.0001)
    await world.run(1000)
    assert world.order == list(range(1000))
    assert max(world.worked.values()) <= 64
    assert len(world.worked) < 40, "quick streams do not wait for long"


async def test_slow_streams_leave_the_loop_to_others() -> None:
    world = World(0.001)
    await world.run(200, pieces=3)
    assert sorted(world.order) == sorted([*range(200)] * 3)
    late = [count for turn, count in sorted(world.worked.items()) if turn > 20]
    assert sum(late) / len(late) <= 6, "a turn of the loop takes about 5 ms"


async def test_one_stream_that_has_much_to_send_waits_for_the_next_turn_of_the_loop() -> None:
    world = World(0.001)
    await world.run(1, pieces=100)
    assert max(world.worked.values()) <= 7


async def test_streams_whose_clients_have_left_take_no_turn() -> None:
    world = World(0.001)
    crowd = [asyncio.create_task(world.stream(number)) for number in range(100)]
    await asyncio.sleep(0)
    for task in crowd[:-1]:
        task.cancel()
    await crowd[-1]
    assert len(world.order) < 30
    await asyncio.gather(*crowd, return_exceptions=True)

"""Subscriptions: shared updates, bounds, snapshots."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from bridgehead.insight.live.rows import Row
from bridgehead.insight.live.subscriptions import Feed, Feeds
from bridgehead.insight.live.updates import Change, Op, Status, Table, Update

SERVICES, PODS = frozenset({Table.SERVICES}), frozenset({Table.PODS})


class World:
    def __init__(self) -> None:
        self.snapshots = 0
        self.wanted: list[frozenset[Table]] = []
        self.feeds = Feeds(self._snapshot, lambda: self.wanted.append(self.feeds.tables))

    def _snapshot(self, tables: frozenset[Table]) -> Update:
        self.snapshots += 1
        return Update(at=0.0, is_snapshot=True)

    def change(self, key: str = "a", table: Table = Table.SERVICES, count: int = 1) -> None:
        self.feeds.publish(1.0, [Change(table, Op.CHANGED, f"{key}{n}", Row(key=key)) for n in range(count)], None)


@pytest.fixture
def world():
    return World()


async def nothing(feed: Feed) -> bool:
    try:
        async with asyncio.timeout(0.01):
            await anext(feed)
    except TimeoutError:
        return True
    return False


async def test_the_first_update_is_a_snapshot_and_the_next_ones_are_changes(world: World):
    with Feed(world.feeds, SERVICES, 5) as feed:
        world.change("before")
        assert (await anext(feed)).is_snapshot
        assert await nothing(feed)
        world.change("a")
        world.change("b", Table.PODS)
        world.change("c")
        assert [change.key for _ in range(2) for change in (await anext(feed)).changes] == ["a0", "c0"]
        assert await nothing(feed)


async def test_a_slow_reader_gets_a_snapshot(world: World):
    with Feed(world.feeds, SERVICES, 3) as feed:
        await anext(feed)
        for _ in range(10):
            world.change()
        assert (await anext(feed)).is_snapshot
        assert await nothing(feed)


async def test_many_changes_become_a_snapshot(world: World):
    with Feed(world.feeds, SERVICES, 3) as feed:
        await anext(feed)
        world.change(count=6000)
        assert (await anext(feed)).is_snapshot


async def test_subscribers_share_updates_and_snapshots(world: World):
    with Feed(world.feeds, SERVICES, 5) as one, Feed(world.feeds, SERVICES, 5) as other:
        assert await anext(one) is await anext(other)
        world.change()
        update = await anext(one)
        assert update is await anext(other)
        assert update.json is update.json
    assert world.snapshots == 1


async def test_readers_that_never_read_cost_nothing_more(world: World):
    idle = [Feed(world.feeds, SERVICES, 5).__enter__() for _ in range(1000)]
    for _ in range(100):
        world.change()
    assert world.snapshots == 0
    assert all(not feed._updates for feed in idle)


async def test_wanted_tables_are_followed(world: World):
    with Feed(world.feeds, SERVICES, 5), Feed(world.feeds, PODS, 5):
        assert world.feeds.tables == SERVICES | PODS
    assert world.wanted[-1] == frozenset()
    assert not world.feeds


async def test_status_goes_to_everybody(world: World):
    with Feed(world.feeds, PODS, 5) as feed:
        await anext(feed)
        world.feeds.publish(1.0, (), Status(server="s", problem="gone"))
        assert (await anext(feed)).status == Status(server="s", problem="gone")


async def test_the_end_ends_the_iteration(world: World):
    with Feed(world.feeds, PODS, 5) as feed:
        await anext(feed)
        world.feeds.end()
        assert [update async for update in feed] == []


def test_json_of_an_update():
    update = Update(at=1.5, changes=(Change(Table.PODS, Op.REMOVED, "default/a", None),))
    assert msgspec.json.decode(update.json) == {
        "at": 1.5,
        "isSnapshot": False,
        "rows": {},
        "changes": [{"table": "pods", "op": "removed", "key": "default/a", "row": None}],
        "status": None,
    }

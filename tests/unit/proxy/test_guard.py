"""The times at which the guard looks, how thoroughly, and what it makes of the kernel's news; and those news as
bytes."""

from __future__ import annotations

import os
import struct
from collections.abc import AsyncIterator

import pytest

from bridgehead.network.ruleset_events import Author, Commit, RulesetChange, TransactionEnd, parse_events
from bridgehead.proxy.frontend_table import Frontends, FrontendTable
from bridgehead.proxy.guard import (
    LONGEST_SETTLE_SECONDS,
    POLL_SECONDS,
    SETTLE_SECONDS,
    RepairRateLimiter,
    RuleGuard,
)
from bridgehead.proxy.mode import NO_REPAIR, ObservedCommits, Repair, Watched
from bridgehead.proxy.operating.metrics import ProxyMetrics
from tests.unit.proxy.agent_world import ScriptedMode

NFT = Author("nft", 4711)
OURS, OTHERS = RulesetChange("ip", "bridgehead", "services"), RulesetChange("ip", "docker", "nat")


class ScriptedEvents:
    """A readable file with the commits that the test puts."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self.news: list[list[Commit] | None] = []
        self.is_joined = True

    def fileno(self) -> int:
        return self._reader

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)

    def pause(self) -> None:
        self.is_joined = False

    def resume(self) -> None:
        self.is_joined = True

    def read(self) -> list[Commit] | None:
        return self.news.pop(0) if self.news else []


class LookedAt(ScriptedMode):
    """A mode whose repairs the test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.watched = Watched(frozenset(("bridgehead",)))
        self.looks: list[bool] = []
        self.observed: ObservedCommits = {}
        self.repaired: list[Repair | None] = []
        self.wrong: list[Repair | None] = []

    async def repair(self, table: Frontends, observed: ObservedCommits) -> Repair | None:
        self.observed = observed
        return self.repaired.pop(0) if self.repaired else None

    async def verify(self, table: FrontendTable, *, thoroughly: bool) -> Repair | None:
        self.looks.append(thoroughly)
        return self.wrong.pop(0) if self.wrong else None


class World:
    def __init__(self, *, has_events: bool = True) -> None:
        self.time = 100.0
        self.generation = 0
        self.mode = LookedAt()
        self.events = ScriptedEvents()
        self.woken = 0
        self.table = FrontendTable()
        self.guard = RuleGuard(
            self.mode,
            ProxyMetrics(),
            self._wake,
            30.0,
            open_events=lambda: self.events if has_events else None,  # type: ignore[arg-type, return-value]
            now=lambda: self.time,
        )

    def _wake(self) -> None:
        self.woken += 1

    def commit(self, *changed: RulesetChange, author: Author = NFT, is_whole: bool = True) -> Commit:
        self.generation += 1
        return Commit(self.generation, author, changed, is_whole)

    def observe(self, *changed: RulesetChange, author: Author = NFT, is_whole: bool = True) -> None:
        self.events.news.append([self.commit(*changed, author=author, is_whole=is_whole)])
        self.guard._read()

    async def look(self) -> list[bool]:
        """Whether the mode was asked, and how."""
        self.mode.looks.clear()
        await self.guard.check(self.table)
        return self.mode.looks


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    world.guard.start()
    assert await world.look() == []
    world.time += SETTLE_SECONDS
    assert await world.look() == [True]
    yield world
    world.guard.close()


async def test_without_changes_checks_are_rare(world: World) -> None:
    world.time += 29
    assert await world.look() == []
    world.time += 1
    assert await world.look() == [True]


async def test_an_own_change_is_checked_at_once_and_thoroughly(world: World) -> None:
    world.observe(OURS)
    assert world.woken == 1
    assert await world.look() == [True]
    assert world.guard.due_in() == 30


async def test_own_changes_that_follow_each_other_are_checked_together(world: World) -> None:
    checks = []
    for _ in range(11):
        with world.guard.ours():
            pass
        world.time += 0.8 * SETTLE_SECONDS
        checks += await world.look()
    assert len(checks) == 11 * 0.8 * SETTLE_SECONDS // LONGEST_SETTLE_SECONDS
    world.time += SETTLE_SECONDS
    assert await world.look() == [True]
    assert world.guard.due_in() > SETTLE_SECONDS


async def test_a_check_that_is_due_is_not_postponed(world: World) -> None:
    with world.guard.ours():
        pass
    world.time += SETTLE_SECONDS
    with world.guard.ours():
        pass
    assert await world.look() == [True]


async def test_foreign_tables_are_ignored(world: World) -> None:
    world.observe(OTHERS)
    assert (world.woken, await world.look()) == (0, [])
    world.time += 29.75
    with world.guard.ours():
        pass
    world.time += 0.125
    assert await world.look() == []
    world.time += 0.125
    assert await world.look() == [False], "time for the safety look"
    world.observe(OTHERS)
    world.time += 600
    assert await world.look() == [True]


async def test_after_a_foreign_change_only_changed_rules_are_compared(world: World) -> None:
    world.observe(OTHERS)
    with world.guard.ours():
        assert not world.events.is_joined
    world.time += SETTLE_SECONDS
    assert await world.look() == [False], "the ruleset's generation has moved, and it is known why"


async def test_an_overflow_of_events_causes_a_full_check(world: World) -> None:
    world.events.news.append(None)
    world.guard._read()
    assert await world.look() == [True]


async def test_the_log_names_the_program(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.mode.wrong = [Repair(True, 3)]
    world.observe(OTHERS, author=Author("dockerd", 1))
    world.observe(OURS)
    await world.look()
    assert caplog.messages == ["nft (process 4711) changed our rules; repaired tables or rules and 3 elements"]


async def test_the_own_repair_is_not_a_foreign_change(world: World) -> None:
    world.mode.wrong = [Repair(True, 3)]
    world.observe(OURS)
    world.events.news += [[], [world.commit(OURS, author=Author("bridgehead", 1))]]
    await world.look()
    assert world.guard.due_in() == SETTLE_SECONDS, "one look more, for what may have come in between"


async def test_a_change_during_a_check_causes_another(world: World) -> None:
    world.observe(OURS)
    world.events.news += [[], [world.commit(OURS)]]
    await world.look()
    assert world.guard.due_in() == 0


async def test_long_checks_are_less_frequent(world: World) -> None:
    async def look(table: FrontendTable, *, thoroughly: bool) -> Repair | None:
        world.time += 1.5
        return None

    world.mode.verify = look
    world.time += 30
    await world.look()
    world.observe(OURS)
    await world.look()
    assert world.guard.due_in() == 28.5, "somebody has touched our rules: it looked"
    world.observe(OURS)
    await world.look()
    assert world.guard.due_in() == 6, "in vain, and again"
    world.observe(OURS)
    world.mode.repaired = [Repair(False, 1)]
    await world.look()
    assert world.guard.due_in() == SETTLE_SECONDS, "a completely observed commit is repaired all the same"
    world.time += 6
    del world.mode.verify
    assert await world.look() == [True]


async def test_a_failed_check_is_repeated(world: World) -> None:
    async def fail(table: FrontendTable, *, thoroughly: bool) -> Repair | None:
        raise OSError(5, "broken")

    world.observe(OURS)
    real, world.mode.verify = world.mode.verify, fail
    with pytest.raises(OSError, match="broken"):
        await world.look()
    world.mode.verify = real
    world.time += 30
    assert await world.look() == [True]


async def test_without_kernel_events_checks_are_periodic() -> None:
    world = World(has_events=False)
    world.guard.start()
    looks = []
    for _ in range(61):
        world.time += POLL_SECONDS
        looks += await world.look()
    assert looks == [False] * 59 + [True, False]


async def test_completely_observed_commits_are_passed_to_the_mode_once(world: World) -> None:
    world.observe(OTHERS)
    world.observe(OURS, OTHERS)
    world.observe(OURS, is_whole=False)
    await world.look()
    assert world.mode.observed == {1: (), 2: (OURS,)}, (
        "who hears of 1 and 2, and not of 3, knows that something is lacking"
    )
    world.observe(OURS)
    await world.look()
    assert world.mode.observed == {4: (OURS,)}


async def test_a_commit_before_the_own_change_is_observed(world: World) -> None:
    world.events.news.append([world.commit(OURS)])
    with world.guard.ours():
        pass
    await world.look()
    assert world.mode.observed == {1: (OURS,)}


async def test_after_lost_events_nothing_earlier_is_used(world: World) -> None:
    world.observe(OURS)
    world.events.news.append(None)
    world.guard._read()
    world.observe(OTHERS)
    await world.look()
    assert world.mode.observed == {2: ()}


async def test_a_change_that_the_mode_can_repair_needs_no_check(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.observe(OURS)
    world.mode.repaired = [Repair(False, 3)]
    assert await world.look() == []
    assert caplog.messages == ["nft (process 4711) changed our rules; repaired 3 elements"]
    world.time += SETTLE_SECONDS
    world.mode.repaired = [NO_REPAIR]
    assert await world.look() == [True], "something may have come with it"
    world.observe(OURS)
    world.mode.repaired = [NO_REPAIR]
    caplog.set_level("INFO")
    assert await world.look() == []
    assert caplog.messages[-1] == "nft (process 4711) changed rules of this proxy; they are still correct"


async def test_the_number_of_remembered_commits_is_bounded(world: World) -> None:
    world.observe(*[OURS] * 30_001)
    assert await world.look() == [True]
    assert world.mode.observed == {}


def test_repairs_are_immediate_until_they_are_reverted_repeatedly() -> None:
    limiter = RepairRateLimiter()
    assert [limiter.repaired(float(second)) for second in range(12)] == [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 30, 30]
    assert limiter.repaired(1000.0) == 0


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", len(value) + 4, kind) + value + b"\0" * (-len(value) % 4)


def message(kind: int, *attributes: bytes, family: int = 2) -> bytes:
    body = struct.pack("=BBH", family, 0, 0) + b"".join(attributes)
    return struct.pack("=IHHII", 16 + len(body), 10 << 8 | kind, 0, 0, 0) + body


def test_kernel_events_wake_the_guard() -> None:
    data = (
        message(0, attribute(1, b"filter\0"))
        + message(3, attribute(1, b"t\0"), attribute(2, b"12345678"), attribute(3, b"chain\0"), family=10)
        + message(5, attribute(1, b"t\0"), attribute(2, b"12345678"), attribute(3, b"chain\0"), family=10)
        + message(6, attribute(1, b"t\0"), attribute(2, b"c\0"), family=1)
        + message(9, attribute(1, b"t\0"), attribute(2, b"set\0"))
        + message(12, attribute(1, b"t\0"), attribute(2, b"set\0"), attribute(3, b"bytes"))
        + message(14, attribute(1, b"t\0"), attribute(2, b"set\0"), attribute(3, b"bytes"))
        + message(15, attribute(1, b"\0\0\0\1"), attribute(2, b"\0\0\1\0"), attribute(3, b"nft\0"))
    )
    assert list(parse_events(data)) == [
        RulesetChange("ip", "filter"),
        RulesetChange("ip6", "t", "chain"),
        RulesetChange("ip6", "t", "chain", is_deleted=True),
        RulesetChange("inet", "t", "c"),
        RulesetChange("ip", "t", container="set"),
        RulesetChange("ip", "t", container="set", elements=b"bytes"),
        RulesetChange("ip", "t", container="set", elements=b"bytes", is_deleted=True),
        TransactionEnd(1, Author("nft", 256)),
    ]
    for length in range(len(data)):
        list(parse_events(data[:length]))  # nothing makes it fail


def test_only_our_part_of_a_shared_table_is_watched() -> None:
    watched = Watched(frozenset(("nat",)), ("KUBE-", "PREROUTING"))
    assert watched.concerns("nat", "KUBE-SVC-X")
    assert not watched.concerns("nat", "DOCKER")
    assert not watched.concerns("nat", "")
    assert not watched.concerns("filter", "KUBE-FORWARD")

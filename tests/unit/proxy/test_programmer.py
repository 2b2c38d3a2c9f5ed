"""A kernel that refuses some Services: which are found, which are served meanwhile, and how often the kernel is
asked."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.errors import Busy, NotFound, Refused, TooBig, TransactionFailed
from bridgehead.proxy.frontend_table import FrontendTable, Update, merge_changes
from bridgehead.proxy.frontends import Backend, Frontend, FrontendKey, Problem, ServiceFrontends
from bridgehead.proxy.mode import Repair, Settings
from bridgehead.proxy.operating.metrics import ProxyMetrics
from bridgehead.proxy.programmer import MOVES, Phase, Programmer
from bridgehead.proxy.refusals import Refusals
from tests.unit.examples import examples


class PickyKernel:
    """A mode whose kernel takes each transaction whole, unless it has something of a Service in `bad`."""

    name = "picky"
    watched = None
    families = ()

    def __init__(self) -> None:
        self.settings = Settings()
        self.bad: set[str] = set()
        self.rules: dict[FrontendKey, Frontend] = {}
        self.must_sync = True
        self.failing: list[Exception] = []
        self.tries = 0
        self.on_change: Callable[[], None] = lambda: None

    def configure(self, settings: Settings) -> None:
        self.settings = settings

    def unsupported(self, frontend: Frontend) -> Problem | None:
        return None

    async def apply(self, updates: Sequence[Update]) -> int:
        assert not self.must_sync, "after a failure only a sync may follow"
        rules = dict(self.rules)
        for old, new in merge_changes(updates):
            if old is not None:
                assert rules.pop(old.key) == old
            if new is not None:
                assert new.key not in rules
                rules[new.key] = new
        return self._take(rules)

    async def sync(self, table: FrontendTable) -> int:
        return self._take({frontend.key: frontend for frontend in table})

    async def verify(self, table: FrontendTable, *, thoroughly: bool) -> Repair | None:
        return None

    async def let_through(self, address: str, port: int) -> bool:
        return False

    async def remove(self) -> bool:
        return False

    def render(self, table: FrontendTable) -> str:
        return ""

    def check(self, rules: Iterable[Frontend]) -> None:
        self.tries += 1
        if self.failing:
            raise self.failing.pop(0)
        found = sorted({frontend.owner for frontend in rules} & self.bad)
        if found:
            raise Refused(f"{found[0]} is bad")

    def _take(self, rules: dict[FrontendKey, Frontend]) -> int:
        self.must_sync = True
        self.check(rules.values())
        self.must_sync = False
        changed = len(rules.items() ^ self.rules.items())
        self.rules = rules
        self.on_change()
        return changed

    def owners(self) -> set[str]:
        return {frontend.owner for frontend in self.rules.values()}


class ValidatingKernel(PickyKernel):
    async def validate(self, table: FrontendTable) -> None:
        self.check(table)


def service(number: int, *backends: int, version: int = 1, name: str = "") -> ServiceFrontends:
    owner = f"default/{name or f's{number}'}:v{version}"
    address = f"10.96.{number // 250}.{number % 250 + 1}"
    frontend = Frontend(
        key=FrontendKey(address, "tcp", 80),
        owner=owner,
        backends=tuple(Backend(f"10.244.1.{n}", 80) for n in backends),
    )
    return ServiceFrontends(service=key_of(number), frontends=(frontend,), cluster_ips=(address,))


def key_of(number: int) -> ObjectKey:
    return ObjectKey("default", f"s{number}")


class World:
    def __init__(self, kernel: PickyKernel) -> None:
        self.kernel = kernel
        self.time = 0.0
        self.refused: list[tuple[str, str]] = []
        refusals = Refusals(lambda: self.time)
        self.programmer = Programmer(
            kernel,
            ProxyMetrics(),
            lambda key, text: self.refused.append((key.name, text)),
            refusals=refusals,
        )

    async def program(self, *services: ServiceFrontends) -> None:
        for compiled in services:
            self.programmer.install(compiled.service, compiled)
        self.kernel.tries = 0
        await self.programmer.program()


@pytest.fixture(params=[PickyKernel, ValidatingKernel])
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param())


async def test_one_rejected_service_at_the_first_sync_is_left_out(world: World) -> None:
    world.kernel.bad = {"default/s777:v1"}

    await world.program(*(service(number, 1) for number in range(1000)))

    assert world.refused == [("s777", "default/s777:v1 is bad")]
    assert world.kernel.owners() == {f"default/s{number}:v1" for number in range(1000) if number != 777}
    assert world.kernel.tries < 50, "a few for each halving"


async def test_a_rejected_change_keeps_the_old_rules_and_others_are_served(world: World) -> None:
    await world.program(*(service(number, 1) for number in range(100)))
    world.kernel.bad = {"default/s7:v2"}
    missing: list[int] = []
    world.kernel.on_change = lambda: missing.append(100 - len(world.kernel.rules))

    await world.program(*(service(number, 2, version=2) for number in (5, 6, 7, 8)))

    assert world.refused == [("s7", "default/s7:v2 is bad")]
    assert world.kernel.owners() >= {"default/s5:v2", "default/s7:v1", "default/s8:v2", "default/s9:v1"}
    assert set(missing) == {0}, "at no moment was any Service without rules"


async def test_a_rejected_service_is_retried_when_it_changes(world: World) -> None:
    world.kernel.bad = {"default/s1:v1", "default/s1:v2"}
    await world.program(service(1, 1), service(2, 1))

    world.time = 5.0
    await world.program(service(1, 2, version=2), service(2, 2, version=2))
    assert [name for name, _ in world.refused] == ["s1", "s1"]
    assert world.kernel.owners() == {"default/s2:v2"}

    world.time = 6.0
    await world.program(service(1, 3, version=3))
    assert world.kernel.owners() == {"default/s1:v3", "default/s2:v2"}
    assert len(world.programmer.refusals) == 0


async def test_a_rejected_service_that_changes_constantly_is_retried_with_back_off(world: World) -> None:
    world.kernel.bad = {f"default/s1:v{n}" for n in range(100)}
    await world.program(service(1, 1))
    for version in range(2, 100):
        world.time += 0.1
        await world.program(service(1, version, version=version))

    assert len(world.refused) == 10
    world.kernel.bad.clear()
    world.time += 1.0
    assert world.programmer.refusals.due() == {key_of(1)}


async def test_a_rejected_service_is_retried_with_increasing_delays(world: World) -> None:
    world.kernel.bad = {"default/s1:v1"}
    await world.program(service(1, 1), service(2, 1))
    gaps = []
    for _ in range(7):
        wait = world.programmer.refusals.due_in()
        assert wait is not None
        gaps.append(wait)
        assert world.programmer.refusals.due() == set()
        world.time += wait
        assert world.programmer.refusals.due() == {key_of(1)}
        await world.program(service(1, 1))

    assert gaps == [10, 20, 40, 80, 160, 300, 300]
    world.kernel.bad.clear()
    world.time += 300
    await world.program(service(1, 1))
    assert world.programmer.refusals.due_in() is None
    assert world.kernel.owners() == {"default/s1:v1", "default/s2:v1"}


async def test_a_rejected_service_can_be_deleted(world: World) -> None:
    world.kernel.bad = {"default/s1:v1"}
    await world.program(service(1, 1), service(2, 1))
    world.time = 2.0
    world.programmer.install(key_of(1), None)
    await world.programmer.program()

    assert len(world.programmer.refusals) == 0
    assert list(world.programmer.table.services()) == [key_of(2)]


async def test_a_kernel_that_rejects_everything_blames_no_service(world: World) -> None:
    world.kernel.failing = [Refused("no") for _ in range(100)]
    with pytest.raises(Refused):
        await world.program(service(1, 1), service(2, 1))
    world.kernel.failing = []
    assert world.refused == []

    await world.programmer.program()
    assert world.kernel.owners() == {"default/s1:v1", "default/s2:v1"}


async def test_missing_rules_blame_no_service(world: World) -> None:
    await world.program(service(1, 1), service(2, 1))
    world.kernel.failing = [NotFound("gone")]
    await world.program(service(1, 1, 2))

    assert world.refused == []
    assert len(world.kernel.rules[FrontendKey("10.96.0.2", "tcp", 80)].backends) == 2


async def test_no_service_is_blamed_while_the_kernel_is_busy(world: World) -> None:
    await world.program(service(1, 1))
    world.kernel.failing = [Busy("no memory"), Busy("no memory")]
    with pytest.raises(Busy):
        await world.program(service(1, 1, 2))

    await world.programmer.program()

    assert world.refused == []
    assert len(world.kernel.rules[FrontendKey("10.96.0.2", "tcp", 80)].backends) == 2


@pytest.mark.parametrize(
    "error", [TooBig("too big"), Busy("no memory"), OSError(5, "broken"), TransactionFailed("unreadable")]
)
async def test_an_error_during_the_search_loses_no_service(world: World, error: Exception) -> None:
    world.kernel.bad = {"default/s3:v1"}
    for step in range(2, 12):
        world.kernel.failing = []
        fresh = World(type(world.kernel)())
        fresh.kernel.bad = world.kernel.bad
        tries = 0
        real = fresh.kernel.check

        def check(rules: Iterable[Frontend], step: int = step, real: Callable[..., None] = real) -> None:
            nonlocal tries
            tries += 1
            if tries == step:
                raise error
            real(rules)

        fresh.kernel.check = check
        try:
            await fresh.program(*(service(number, 1) for number in range(6)))
        except (TransactionFailed, OSError):
            await fresh.programmer.program()
        assert fresh.kernel.owners() == {f"default/s{number}:v1" for number in range(6) if number != 3}, step


async def test_a_service_that_takes_an_address_of_a_rejected_one_is_served(world: World) -> None:
    """The rejected Service is restored to its old rules, whose address another Service has claimed meanwhile."""
    world.kernel.bad = {"default/s1:v2"}
    await world.program(service(1, 1), service(2, 1))
    await world.program(service(1, 2, version=2))
    assert world.kernel.owners() == {"default/s1:v1", "default/s2:v1"}

    world.time = 2.0
    claim = Frontend(key=service(1).frontends[0].key, owner="default/s0:")
    other = ServiceFrontends(service=key_of(0), frontends=(claim,), cluster_ips=())
    elsewhere = service(9, 1).frontends[0]
    moved = ServiceFrontends(service=key_of(1), frontends=(elsewhere,), cluster_ips=())
    world.kernel.bad = {elsewhere.owner}
    await world.program(moved, other)

    assert world.kernel.rules == {frontend.key: frontend for frontend in world.programmer.table}


async def test_an_interrupted_search_remembers_the_applied_state() -> None:
    """The first attempt of the search fails for another reason; the rejected Service keeps its rules."""
    world = World(PickyKernel())
    await world.program(*(service(number, 1) for number in range(6)))
    world.kernel.bad = {"default/s3:v2"}
    world.kernel.failing = [Refused("apply"), Refused("sync"), OSError(5, "broken")]
    with pytest.raises(OSError, match="broken"):
        await world.program(*(service(number, 2, version=2) for number in range(6)))

    await world.programmer.program()

    assert world.refused == [("s3", "default/s3:v2 is bad")]
    assert world.kernel.owners() == {f"default/s{number}:v{1 if number == 3 else 2}" for number in range(6)}


async def test_phases_follow_successes_and_failures(world: World) -> None:
    """`program` ends in CURRENT, or, after a failure, in NEW before the first sync and in STALE after it."""
    steady = {Phase.NEW, Phase.STALE, Phase.CURRENT}
    programmer = world.programmer
    assert programmer.phase is Phase.NEW
    programmer.require_sync()
    assert programmer.phase is Phase.NEW, "knows even less than STALE"
    world.kernel.failing = [OSError(5, "broken")]
    with pytest.raises(OSError, match="broken"):
        await world.program(service(1, 1))
    assert programmer.phase is Phase.NEW
    await programmer.program()
    assert programmer.phase is Phase.CURRENT
    world.kernel.failing = [OSError(5, "broken")]
    with pytest.raises(OSError, match="broken"):
        await world.program(service(1, 2, version=2))
    assert programmer.phase is Phase.STALE
    programmer.restart()
    assert programmer.phase is Phase.NEW
    assert set(MOVES) == set(Phase) == set().union(*MOVES.values())
    assert all(MOVES[phase] & steady for phase in Phase), "every phase can end"


@examples(60)
@given(data=st.data(), validating=st.booleans())
def test_after_any_history_the_kernel_has_the_valid_services(data: st.DataObject, validating: bool) -> None:
    seed = data.draw(st.integers(0, 2**32))
    asyncio.run(_random_run(random.Random(seed), ValidatingKernel() if validating else PickyKernel()))


async def _random_run(chance: random.Random, kernel: PickyKernel) -> None:
    world = World(kernel)
    wanted: dict[int, ServiceFrontends | None] = {}
    for version in range(1, 8):
        for number in chance.sample(range(20), chance.randrange(1, 12)):
            compiled = service(number, version, version=version) if chance.random() < 0.8 else None
            if compiled is not None and chance.random() < 0.15:
                kernel.bad.add(compiled.frontends[0].owner)
            wanted[number] = compiled
            world.programmer.install(key_of(number), compiled)
        if chance.random() < 0.2:
            kernel.failing = [chance.choice([Refused("x"), NotFound("y"), TooBig("z"), Busy("b"), OSError(5, "e")])]
        world.time += chance.choice([0.0, 0.5, 2.0, 20.0])
        try:
            await world.programmer.program()
        except (TransactionFailed, OSError):
            continue
        assert kernel.rules == {frontend.key: frontend for frontend in world.programmer.table}
    kernel.failing = []
    world.time += 1000
    for key in world.programmer.refusals.due():
        compiled = wanted[int(key.name[1:])]
        world.programmer.install(key, compiled)
    await world.programmer.program()
    good = {c.frontends[0].owner for c in wanted.values() if c is not None} - kernel.bad
    assert kernel.owners() >= good

"""Steps that await outcomes: their order, results and failures."""

from __future__ import annotations

import pytest

from bridgehead.kubelet.runtimes.service import coroutines
from bridgehead.kubelet.runtimes.service.coroutines import Outcome


def value_of(outcome: Outcome[str]) -> str:
    """The value of a known outcome."""
    values: list[str] = []

    async def take() -> None:
        values.append(await outcome)

    coroutines.start(take())
    return values[0]


def test_steps_go_on_in_the_order_in_which_they_began_to_wait() -> None:
    began: Outcome[int] = Outcome()
    seen = []

    async def wait(name: str) -> str:
        seen.append(f"{name} waits")
        seen.append(f"{name} has {await began}")
        return name

    results = [coroutines.start(wait(name)) for name in ("a", "b")]
    assert not any(result.is_known for result in results)
    began.set(1)
    began.set(2)
    assert seen == ["a waits", "b waits", "a has 1", "b has 1"]
    assert [value_of(result) for result in results] == ["a", "b"]


def test_a_failure_reaches_all_that_await_it(caplog: pytest.LogCaptureFixture) -> None:
    began: Outcome[None] = Outcome()

    async def fail() -> None:
        await began
        raise ValueError("no")

    async def catch(failing: Outcome[None]) -> str:
        try:
            await failing
        except ValueError as error:
            return str(error)
        return ""

    failing = coroutines.start(fail())
    caught = [coroutines.start(catch(failing)) for _ in range(2)]
    began.set(None)
    later = coroutines.start(catch(failing))
    assert [value_of(each) for each in (*caught, later)] == ["no"] * 3
    assert not caplog.records


def test_a_failure_that_nobody_awaits_is_logged_and_stops_no_other_steps(caplog: pytest.LogCaptureFixture) -> None:
    began: Outcome[None] = Outcome()

    async def fail() -> None:
        await began
        raise ValueError("no")

    async def go_on() -> int:
        await began
        return 1

    coroutines.start(fail())
    other = coroutines.start(go_on())
    began.set(None)
    assert other.is_known
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ValueError]

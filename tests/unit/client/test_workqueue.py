import asyncio
import logging

import pytest
import uvloop

from bridgehead.client import Done, Outcome, Requeue, Retry, WorkQueue
from bridgehead.client.errors import ApiError, Conflict, Unreachable
from tests.unit.virtual_time import run_virtual


async def run_for(queue: WorkQueue[str], reconcile, seconds: float, workers: int = 4) -> None:
    task = asyncio.create_task(queue.run(reconcile, workers))
    await asyncio.sleep(seconds)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_key_that_is_added_often_runs_once():
    async def main() -> None:
        ran = []

        async def reconcile(key: str) -> Outcome:
            ran.append(key)
            return Done()

        queue = WorkQueue[str]("test")
        for key in "aabab":
            queue.add(key)
        assert len(queue) == 2
        await run_for(queue, reconcile, 10)
        assert ran == ["a", "b"]
        assert len(queue) == 0

    run_virtual(main())


def test_waiting_keys_run_in_the_order_of_their_rank():
    async def main() -> None:
        ran = []

        async def reconcile(key: str) -> Outcome:
            ran.append(key)
            return Done()

        queue = WorkQueue[str]("test", rank=lambda key: -len(key))
        for key in ("a", "bb", "c", "dd"):
            queue.add(key)
        await run_for(queue, reconcile, 10, workers=1)
        assert ran == ["bb", "dd", "a", "c"]

    run_virtual(main())


def test_a_key_never_runs_concurrently_and_runs_again_when_it_was_added_meanwhile():
    async def main() -> None:
        queue = WorkQueue[str]("test")
        running: set[str] = set()
        spans = []

        async def reconcile(key: str) -> Outcome:
            assert key not in running
            running.add(key)
            begun = asyncio.get_running_loop().time()
            if not spans:
                queue.add(key)
                queue.add(key)
            await asyncio.sleep(1)
            spans.append((key, begun))
            running.discard(key)
            return Done()

        queue.add("a")
        await run_for(queue, reconcile, 10)
        assert spans == [("a", 0), ("a", 1)]

    run_virtual(main())


def test_different_keys_run_concurrently_up_to_the_number_of_workers():
    async def main() -> None:
        queue = WorkQueue[int]("test")
        most = now = 0

        async def reconcile(key: int) -> Outcome:
            nonlocal most, now
            now += 1
            most = max(most, now)
            await asyncio.sleep(1)
            now -= 1
            return Done()

        for key in range(10):
            queue.add(key)
        await run_for(queue, reconcile, 100, workers=3)  # type: ignore[arg-type]
        assert most == 3

    run_virtual(main())


@pytest.mark.parametrize(
    ("delays", "expected"),
    [((5.0,), [5]), ((5.0, 2.0), [2]), ((2.0, 5.0), [2]), ((0.0,), [0]), ((-1.0, 3.0), [0, 3])],
)
def test_the_earliest_of_several_delays_counts(delays, expected):
    async def main() -> None:
        queue = WorkQueue[str]("test")
        times = []

        async def reconcile(key: str) -> Outcome:
            times.append(asyncio.get_running_loop().time())
            return Done()

        for delay in delays:
            queue.add_after("a", delay)
        await run_for(queue, reconcile, 100)
        assert times == expected

    run_virtual(main())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize(("first", "second"), [(0.0001, 0.0001), (0.0001, 60), (60, 0.0001)])
def test_the_earliest_of_several_delays_counts_although_it_is_shorter_than_a_clock_tick(run, first, second):
    # uvloop does not make a timer of a delay that rounds to 0 ms.
    async def main() -> list[str]:
        queue: WorkQueue[str] = WorkQueue("t")
        seen: list[str] = []
        reconciled = asyncio.Event()

        async def reconcile(key: str) -> Outcome:
            seen.append(key)
            reconciled.set()
            return Done()

        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            queue.add_after("a", first)
            queue.add_after("a", second)
            work = tasks.create_task(queue.run(reconcile))
            await reconciled.wait()
            work.cancel()
        return seen

    assert run(main()) == ["a"]


def test_retries_back_off_until_success():
    async def main() -> None:
        queue = WorkQueue[str]("test", first_delay=1, longest_delay=4)
        times = []

        async def reconcile(key: str) -> Outcome:
            times.append(asyncio.get_running_loop().time())
            return Requeue(10) if len(times) == 5 else Retry("not yet")

        queue.add("a")
        await run_for(queue, reconcile, 23)
        #              first, +1, +2, +4, +4, requeued +10, +1, ...
        assert times == [0, 1, 3, 7, 11, 21, 22]

    run_virtual(main())


def test_an_outage_does_not_delay_keys_after_its_end():
    async def main() -> None:
        queue = WorkQueue[str]("test")
        loop = asyncio.get_running_loop()
        done = []

        async def reconcile(key: str) -> Outcome:
            if loop.time() < 1000:
                raise Unreachable("down")
            done.append(loop.time())
            return Done()

        queue.add("a")
        await run_for(queue, reconcile, 1100)
        assert done[0] <= 1005

    run_virtual(main())


@pytest.mark.parametrize(
    ("error", "levels"),
    [
        (ApiError(500, "InternalError", "no"), [logging.WARNING]),
        (ZeroDivisionError(), [logging.ERROR]),
        (Unreachable("down"), []),
        (Conflict(409, "Conflict", "changed"), []),
    ],
)
def test_an_exception_causes_a_retry_and_is_logged_once(caplog, error, levels):
    caplog.set_level(logging.INFO)

    async def main() -> None:
        queue = WorkQueue[str]("test", first_delay=1)
        tries = 0

        async def reconcile(key: str) -> Outcome:
            nonlocal tries
            tries += 1
            raise error

        queue.add("a")
        await run_for(queue, reconcile, 11)
        assert tries == 4

    run_virtual(main())
    assert [record.levelno for record in caplog.records] == levels


def test_a_failing_key_does_not_stop_the_others():
    async def main() -> None:
        queue = WorkQueue[str]("test")
        done = []

        async def reconcile(key: str) -> Outcome:
            if key == "bad":
                raise RuntimeError(key)
            done.append(key)
            return Done()

        for key in ("bad", "a", "b"):
            queue.add(key)
        await run_for(queue, reconcile, 1, workers=1)
        assert done == ["a", "b"]

    run_virtual(main())


def test_keys_left_after_cancellation_run_next_time():
    async def main() -> None:
        queue = WorkQueue[str]("test")
        done = []

        async def hang(key: str) -> Outcome:
            await asyncio.sleep(1000)
            return Done()

        async def reconcile(key: str) -> Outcome:
            done.append(key)
            return Done()

        queue.add("a")
        queue.add("b")
        await run_for(queue, hang, 1, workers=1)
        queue.add("a")
        await run_for(queue, reconcile, 1)
        assert sorted(done) == ["a", "b"]

    run_virtual(main())

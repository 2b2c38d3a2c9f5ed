"""Takeovers of load-balancer addresses, as a client sees them that asks every 5 ms.

Three nodes with speakers in network namespaces (tests/integration/speaker_world.py); the node that holds the address
fails, again and again. A gap is the longest time between the requests of two answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from tests.integration.speaker_world import (
    FAULTS,
    NODES_IN_WORLD,
    Answer,
    Prober,
    SpeakerWorld,
    answered_by,
    fault,
    longest_gap,
    speaker_world,
    until,
    vip,
)

from . import namespaces
from .tables import Table, not_measured

RUNS = 50
BUSY_SECONDS = 120.0
_KILLED = "speaker killed"
_AFTER_SECONDS = 0.3  # in which the client still asks after the takeover


def run() -> list[Table]:
    result = namespaces.start("benchmarks.failover", str(RUNS), str(BUSY_SECONDS))
    note = f"Layer 2, 3 nodes, {RUNS} runs each: the node that holds an address fails; a client asks every 5 ms."
    columns = ("failure", "gap, median", "gap, 90 %", "gap, longest", "new holder answers after, median", "longest")
    if result.status:
        return [Table("Takeovers", columns, [[not_measured("the world did not start")] * len(columns)], note)]
    measured = json.loads(result.output)
    rows = [[f"false takeovers in {BUSY_SECONDS:.0f} s with all processors busy", str(measured["false takeovers"])]]
    return [Table("Takeovers", columns, measured["rows"], note), Table("Busy nodes", ("what", "measured"), rows)]


async def _measure(runs: int, busy_seconds: float) -> dict[str, Any]:
    rows = []
    async with speaker_world(Path("/run/world")) as world:
        await world.start_speakers()
        await world.add_service("web", vip(10))
        holder = await world.until_held(vip(10))
        for what in (*FAULTS, _KILLED):
            gaps, delays = [], []
            for _ in range(runs):
                gap, delay = await _fail(world, holder, what)
                gaps.append(gap)
                delays.append(delay)
            rows.append(
                [
                    what,
                    _milliseconds(statistics.median(gaps)),
                    _milliseconds(sorted(gaps)[int(0.9 * len(gaps))]),
                    _milliseconds(max(gaps)),
                    _milliseconds(statistics.median(delays)),
                    _milliseconds(max(delays)),
                ]
            )
            print(*rows[-1], file=sys.stderr)
        false_takeovers = await _count_false_takeovers(world, busy_seconds)
    return {"rows": rows, "false takeovers": false_takeovers}


async def _count_false_takeovers(world: SpeakerWorld, seconds: float) -> int:
    """Return how often a speaker believed another one dead while each processor had two processes that only compute."""
    before = [await _deaths(world, node) for node in NODES_IN_WORLD]
    with _busy_processors():
        await asyncio.sleep(seconds)
        after = [await _deaths(world, node) for node in NODES_IN_WORLD]
    return sum(after) - sum(before)


@contextmanager
def _busy_processors() -> Iterator[None]:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


async def _deaths(world: SpeakerWorld, node: str) -> int:
    changes = (await world.read_status(node))["deaths"]
    return int(changes)


async def _fail(world: SpeakerWorld, holder: str, what: str) -> tuple[float, float]:
    """Let the holder fail and recover. Return the gap, and the time until the new holder answered, in seconds."""
    await _until_answered(lambda node: node == holder)
    prober = Prober(vip(10))
    await asyncio.sleep(0.1)
    failing = _killed(world, holder) if what == _KILLED else _faulty(world, what, holder)
    async with failing as failed_at:
        await _until_answered(lambda node: node not in ("", holder))
        await asyncio.sleep(_AFTER_SECONDS)
        answers = prober.stop()
    await world.until_members(*NODES_IN_WORLD)
    await world.until_held(vip(10), holder)
    return longest_gap(answers), _first_of_another(answers, holder) - failed_at


@asynccontextmanager
async def _faulty(world: SpeakerWorld, what: str, node: str) -> AsyncIterator[float]:
    begun = time.monotonic()
    with fault(world, what, node):
        yield begun


@asynccontextmanager
async def _killed(world: SpeakerWorld, node: str) -> AsyncIterator[float]:
    begun = time.monotonic()
    speaker = world.speakers[node]
    speaker.signal(signal.SIGKILL)
    yield begun
    speaker.process.wait()
    world.start_speaker(node)


def _first_of_another(answers: list[Answer], holder: str) -> float:
    return next(answer.at for answer in answers if answer.node != holder)


async def _until_answered(is_expected: Callable[[str], bool]) -> None:
    async def answered() -> bool:
        return is_expected(await answered_by(vip(10)))

    check: Callable[[], Awaitable[bool]] = answered
    await until(check)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


if __name__ == "__main__":
    namespaces.enter(sys.argv[1])
    print(json.dumps(asyncio.run(_measure(int(sys.argv[2]), float(sys.argv[3])))))

"""Failover of connections with BGP and with VRRP, as a client sees it that asks every 5 ms.

Three nodes with speakers in network namespaces (tests/integration/speaker_world.py). With BGP the client is behind a
router with BIRD, and BFD runs at 100 ms x 3; with VRRP it is on the nodes' network. The node that serves the client
fails, again and again. A gap is the longest time between the requests of two answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.integration.api_world import until
from tests.integration.speaker_world import (
    NODES_IN_WORLD,
    Prober,
    SpeakerWorld,
    answered_by,
    fault,
    longest_gap,
    speaker_world,
    vip,
)
from tests.integration.test_speaker_bgp import ALL, add_peer, bgp_world, until_bfd, until_next_hops
from tests.integration.test_speaker_vrrp import add_eip, keepalived_of, until_master

from . import namespaces
from .tables import Table, not_measured

RUNS = 50
_KILLED = "speaker killed"
_SIGNALS = {  # to both processes of keepalived
    "keepalived stopped": signal.SIGSTOP,
    "keepalived killed": signal.SIGKILL,
}
_FAULTS = ("black hole", "cannot send", "cannot receive", "both stopped", _KILLED)
# A keepalived does not notice that its speaker is stopped: the node goes on answering and forwarding.
_VRRP_FAULTS = ("black hole", "cannot send", "cannot receive", *_SIGNALS, _KILLED)
_AFTER_SECONDS = 0.3  # in which the client still asks after the failover

Recovered = Callable[[str], Awaitable[None]]  # waits until everything is as before; takes the node that failed


def run() -> list[Table]:
    notes = {
        "BGP": f"BGP with BFD (100 ms x 3), 3 nodes, {RUNS} runs each: the node fails that the router has chosen.",
        "VRRP": f"VRRP (100 ms), 3 nodes, {RUNS} runs each: the master fails.",
    }
    return [_table(protocol, note) for protocol, note in notes.items()]


def _table(protocol: str, note: str) -> Table:
    result = namespaces.start("benchmarks.failover_bgp_vrrp", protocol, str(RUNS))
    columns = ("failure", "gap, median", "gap, 90 %", "gap, longest")
    rows = json.loads(result.output) if result.status == 0 else [[not_measured("the world did not start")] * 4]
    return Table(f"Failover with {protocol}", columns, rows, note)


async def _measure_bgp(runs: int) -> list[list[str]]:
    async with bgp_world() as (world, bird):
        await world.start_speakers()
        await world.add_service("web", vip(10))
        await add_peer(world)

        async def recovered(node: str) -> None:
            await until_next_hops(bird, vip(10), *ALL)
            await until_bfd(world, *NODES_IN_WORLD)

        await recovered("")
        return await _measure_faults(world, _FAULTS, runs, recovered)


async def _measure_vrrp(runs: int) -> list[list[str]]:
    async with speaker_world(Path("/run/world")) as world:
        await add_eip(world)
        await world.start_speakers()
        await world.add_service("web", vip(10))

        async def recovered(node: str) -> None:
            await until_master(vip(10), node)

        await recovered("")
        await asyncio.sleep(1)  # the node with the highest priority takes over from the one that was first
        return await _measure_faults(world, _VRRP_FAULTS, runs, recovered)


async def _measure_faults(
    world: SpeakerWorld, faults: tuple[str, ...], runs: int, recovered: Recovered
) -> list[list[str]]:
    rows = []
    for what in faults:
        gaps = sorted([await _fail(world, what, recovered) for _ in range(runs)])
        figures = (statistics.median(gaps), gaps[int(0.9 * len(gaps))], gaps[-1])
        rows.append([what, *(f"{figure * 1000:.0f} ms" for figure in figures)])
        print(*rows[-1], file=sys.stderr)
    return rows


async def _fail(world: SpeakerWorld, what: str, recovered: Recovered) -> float:
    """Let the node that serves the client fail and recover. Return the gap in seconds."""
    node = await answered_by(vip(10))
    prober = Prober(vip(10))
    await asyncio.sleep(0.1)

    async def is_moved() -> bool:
        return await answered_by(vip(10)) not in ("", node)

    if what == _KILLED:
        speaker = world.speakers[node]
        speaker.signal(signal.SIGKILL)
        await until(is_moved)
        await asyncio.sleep(_AFTER_SECONDS)
        answers = prober.stop()
        speaker.process.wait()
        world.start_speaker(node)
    elif what in _SIGNALS:
        before = keepalived_of(world, node)
        for pid in before:
            os.kill(pid, _SIGNALS[what])

        async def is_replaced() -> bool:  # the node may be the master again before another one is
            now = keepalived_of(world, node)
            return len(now) == len(before) and not set(now) & set(before)

        await until(is_replaced)
        await asyncio.sleep(_AFTER_SECONDS)
        answers = prober.stop()
    else:
        with fault(world, what, node):
            await until(is_moved)
            await asyncio.sleep(_AFTER_SECONDS)
            answers = prober.stop()
    await world.until_members(*NODES_IN_WORLD)
    await recovered(node)
    return longest_gap(answers)


def main(forbidden: str, protocol: str, runs: str) -> None:
    namespaces.enter(forbidden)
    measure = {"BGP": _measure_bgp, "VRRP": _measure_vrrp}[protocol]
    print(json.dumps(asyncio.run(measure(int(runs)))))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Failover of connections through a BGP router, as a client sees it that asks every 5 ms.

Three nodes with speakers and a router with BIRD (tests/integration/test_speaker_bgp.py), BFD at 100 ms x 3; the node to
which the router sends the client's packets fails, again and again. A gap is the longest time between the requests of
two answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
from pathlib import Path

from tests.integration.api_world import until
from tests.integration.bird_router import Bird
from tests.integration.speaker_world import (
    NODES_IN_WORLD,
    Prober,
    SpeakerWorld,
    answered_by,
    fault,
    longest_gap,
    vip,
)
from tests.integration.test_speaker_bgp import ALL, add_peer, bgp_world, until_bfd, until_next_hops

from .tables import Table, not_measured

RUNS = 50
_ROOT = Path(__file__).parents[1]
_KILLED = "speaker killed"
# A stopped speaker costs nobody anything at first: its node goes on forwarding.
_FAULTS = ("black hole", "cannot send", "cannot receive", "both stopped", _KILLED)
_AFTER_SECONDS = 0.3  # in which the client still asks after the failover


def run() -> list[Table]:
    command = ["unshare", "--user", "--map-root-user", "unshare", "--net", "--mount", "--kill-child", "--fork"]
    command += [sys.executable, "-m", "benchmarks.failover_bgp", os.readlink("/proc/self/ns/net"), str(RUNS)]
    result = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=False)
    note = (
        f"BGP with BFD (100 ms x 3), 3 nodes, {RUNS} runs each: the node fails that the router has chosen for a client."
    )
    columns = ("failure", "gap, median", "gap, 90 %", "gap, longest")
    rows = json.loads(result.stdout) if result.returncode == 0 else [[not_measured("the world did not start")] * 4]
    return [Table("Failover with BGP", columns, rows, note)]


async def _measure(runs: int) -> list[list[str]]:
    rows = []
    async with bgp_world() as (world, bird):
        await world.start_speakers()
        await world.add_service("web", vip(10))
        await add_peer(world)
        await until_next_hops(bird, vip(10), *ALL)
        await until_bfd(world, *NODES_IN_WORLD)
        for what in _FAULTS:
            gaps = sorted([await _fail(world, bird, what) for _ in range(runs)])
            figures = (statistics.median(gaps), gaps[int(0.9 * len(gaps))], gaps[-1])
            rows.append([what, *(f"{figure * 1000:.0f} ms" for figure in figures)])
            print(*rows[-1], file=sys.stderr)
    return rows


async def _fail(world: SpeakerWorld, bird: Bird, what: str) -> float:
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
    else:
        with fault(world, what, node):
            await until(is_moved)
            await asyncio.sleep(_AFTER_SECONDS)
            answers = prober.stop()
    await world.until_members(*NODES_IN_WORLD)
    await until_next_hops(bird, vip(10), *ALL)
    await until_bfd(world, *NODES_IN_WORLD)
    return longest_gap(answers)


def main(forbidden: str, runs: str) -> None:
    if os.readlink("/proc/self/ns/net") == forbidden:
        raise SystemExit("this is the network namespace that the benchmark was started in; not touching it")
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    print(json.dumps(asyncio.run(_measure(int(runs)))))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A lab of 30 nodes, with the load balancer and without: its start, 1,000 pods, its memory, and the processor time.

Wall time depends on the processors that are free; the sum of the processor time of all processes does so much less.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from .lab import BRIDGEHEAD, SETTLE_SECONDS, call, processor_seconds, time_rollout, weigh

NODES = 30
PODS = 1000


def run() -> list[tuple[str, str]]:
    with_balancer, without = measure("--balancer"), measure("--no-balancer")
    return [*with_balancer, *((f"{what}, without the load balancer", value) for what, value in without)]


def measure(option: str) -> list[tuple[str, str]]:
    """Measure a lab that is started with this option."""
    with tempfile.TemporaryDirectory() as directory:
        state = Path(directory) / "lab"
        lab = ("--name", "bench-nodes", "--state-dir", str(state))
        began = time.monotonic()
        call(BRIDGEHEAD, "up", *lab, "--detach", "--ephemeral", "--offline", f"--nodes={NODES}", option)
        start = describe(time.monotonic() - began, processor_seconds(state))
        try:
            idle = spent(state, lambda: time.sleep(SETTLE_SECONDS))
            memory = weigh(state)
            seconds: list[float] = []
            used = spent(state, lambda: seconds.append(time_rollout(state, PODS)))
        finally:
            call(BRIDGEHEAD, "down", *lab)
    return [
        ("`bridgehead up` to ready", start),
        (f"`kubectl create deployment --replicas={PODS}` to all Ready", describe(seconds[0], used)),
        ("processors in use while idle", f"{idle / SETTLE_SECONDS:.2f}"),
        ("memory (PSS) while idle", f"{memory:.0f} MiB, {memory / NODES:.0f} MiB for each node"),
    ]


def spent(state: Path, work: Callable[[], None]) -> float:
    """The processor seconds of the lab during `work`."""
    before = processor_seconds(state)
    work()
    return processor_seconds(state) - before


def describe(seconds: float, used: float) -> str:
    return f"{seconds:.1f} s, {used:.1f} s of processor time (one run)"

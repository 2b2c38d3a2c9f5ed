"""Holders of load-balancer addresses while the processes of speakers are killed and stopped at random.

    python -m benchmarks.speaker_chaos [SECONDS [SEED]]

Three nodes in network namespaces (tests/integration/speaker_chaos.py). The exit status is 1 if two nodes answered for
one address for longer than allowed, if an address has no holder afterwards, or if anything is left of the speakers.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys

from tests.integration.speaker_chaos import ALLOWED_SECONDS, run_chaos

from . import namespaces

_SECONDS = "60"


def main(duration: float, seed: int) -> None:
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    logging.getLogger("tests").setLevel(logging.INFO)
    outcome = asyncio.run(run_chaos(duration, seed))
    overlap = outcome.overlap
    macs = ", ".join(overlap.macs)
    print(f"{overlap.address}: {macs} answered for {overlap.seconds * 1000:.0f} ms at most, from {overlap.begun:.3f}")
    for silence in outcome.silences:
        print(f"{silence.address}: no answer for {silence.seconds * 1000:.0f} ms at most, from {silence.begun:.3f}")
    if overlap.seconds > ALLOWED_SECONDS:
        raise SystemExit(f"more than {ALLOWED_SECONDS:.0f} s")


def start(seconds: str = _SECONDS, seed: str = "") -> int:
    """Run this module again in namespaces of its own. Return the exit status."""
    result = namespaces.start("benchmarks.speaker_chaos", "inside", seconds, seed or str(random.randrange(1 << 32)))
    print(result.output, end="")
    return result.status


if __name__ == "__main__":
    if sys.argv[2:3] == ["inside"]:
        namespaces.enter(sys.argv[1])
        main(float(sys.argv[3]), int(sys.argv[4]))
    else:
        sys.exit(start(*sys.argv[1:]))

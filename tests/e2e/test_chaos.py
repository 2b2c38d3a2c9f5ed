"""Two minutes of the chaos run, whose oracle has tests of its own (tests/unit/test_chaos_*.py)."""

from __future__ import annotations

import subprocess
import sys

_SIZE = ("--faults=20", "--minutes=1.5", "--services=60", "--pods=12", "--mode=nftables")


def test_faults_break_nothing_that_could_have_been_served() -> None:
    argv = (sys.executable, "-m", "chaos", "--seed=7", "--slack=5", *_SIZE)
    result = subprocess.run(argv, capture_output=True, text=True, timeout=560)
    assert result.returncode == 0, result.stdout + result.stderr

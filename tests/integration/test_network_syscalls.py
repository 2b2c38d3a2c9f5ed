"""The system calls against the real kernel, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

SOURCE = Path(__file__).resolve().parents[2] / "src"

# A process that does nothing else forks: with other threads around, a child can stand still.
FORKED = """
import os, sys
from pathlib import Path
from bridgehead.network import syscalls
before, title = Path("/proc/self/cmdline").read_bytes(), sys.stdin.read()
if os.fork() == 0:
    syscalls.set_process_name("a-name-longer-than-15", title)
    os.write(1, Path("/proc/self/comm").read_bytes() + Path("/proc/self/cmdline").read_bytes())
    os._exit(0)
os.wait()
assert Path("/proc/self/cmdline").read_bytes() == before
sys.stderr.write(str(len(before)))
"""


@pytest.mark.parametrize("title", ["bridgehead part --with=options", "short", "x" * 10_000])
def test_a_forked_process_has_its_own_title(title: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", FORKED],
        input=title.encode(),
        capture_output=True,
        check=True,
        timeout=240,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
    )
    name, _, shown = result.stdout.partition(b"\n")
    assert name == b"a-name-longer-t"
    assert shown.rstrip(b"\0") == title.encode()[: int(result.stderr) - 2]

"""Programs of benchmarks end with the process that started them. This file as a module is such a program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks import namespaces

from .bird_router import eventually

pytestmark = pytest.mark.integration

STARTER = "import sys; from benchmarks import namespaces; namespaces.start(sys.argv[1], sys.argv[2])"


def is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""  # empty: a zombie that nobody has reaped yet
    except OSError:
        return False


def test_a_program_ends_with_the_process_that_was_killed(tmp_path: Path) -> None:
    found = tmp_path / "pids"
    starter = subprocess.Popen([sys.executable, "-c", STARTER, __name__, str(found)])
    try:
        eventually(lambda: found.exists() and found.read_text().endswith("\n"), "the program and its child")
        pids = found.read_text().split()
        assert all(map(is_running, pids))
    finally:
        starter.kill()
        starter.wait()
    eventually(lambda: not any(map(is_running, pids)), "nothing is left")


if __name__ == "__main__":
    namespaces.enter(sys.argv[1])
    child = subprocess.Popen(["sleep", "600"])
    Path(sys.argv[2]).write_text(f"{os.getpid()} {child.pid}\n")
    child.wait()

"""The kernel's tools get all of their input, or were never started."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bridgehead.proxy.commands import run_command

pytestmark = pytest.mark.integration

SOURCE = Path(__file__).resolve().parents[2] / "src"
SIZE = 3_000_000  # more than any pipe holds

KILLED = f"""
import asyncio, os, sys
from bridgehead.proxy.commands import run_command
script = 'kill -9 "$1"; wc -c >"$0.part"; mv "$0.part" "$0"'
asyncio.run(run_command("sh", "-c", script, sys.argv[1], str(os.getpid()), text="x" * {SIZE}))
"""


async def test_a_command_gets_its_input_and_returns_its_status() -> None:
    assert await run_command("wc", "-c", text="x" * SIZE) == (0, f"{SIZE}\n".encode(), "")
    assert await run_command("sh", "-c", "echo no >&2; exit 3", text="x" * SIZE) == (3, b"", "no\n")
    assert await run_command("cat") == (0, b"", "")


def test_a_killed_caller_leaves_no_command_with_partial_input(tmp_path: Path) -> None:
    result = tmp_path / "count"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(result)], env=os.environ | {"PYTHONPATH": str(SOURCE)})
    assert killed.returncode == -9
    deadline = time.monotonic() + 60
    while not result.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert result.read_text() == f"{SIZE}\n"

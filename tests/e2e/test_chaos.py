"""A short chaos run, whose oracle has tests of its own (tests/unit/chaos), and what signals do to a run."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from chaos.faults import FaultKind

from .conftest import eventually

_CHAOS = (sys.executable, "-m", "chaos", "--seed=7", "--slack=5", "--mode=nftables")
_HOLD_A_LAB = """
import asyncio
from chaos.running import running_lab

async def hold():
    async with running_lab("nftables") as (lab, _):
        print(lab.name, flush=True)
        await asyncio.sleep(600)

asyncio.run(hold())
"""


def test_a_chaos_run_finds_no_unexplained_failure(tmp_path: Path) -> None:
    """A signal ends the run when each kind of fault has occurred: early, with its tables, and without its lab."""
    report = tmp_path / "report.md"
    size = ("--faults=100", "--minutes=3.5", "--services=60", "--pods=12", f"--report={report}")
    lines, missing = [], set(FaultKind)
    with subprocess.Popen((*_CHAOS, *size), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as run:
        assert run.stderr is not None
        for line in run.stderr:
            lines.append(line)
            is_complete = not missing
            missing -= {kind for kind in missing if f" s  {kind}" in line}
            if not missing and not is_complete:
                run.send_signal(signal.SIGTERM)
    assert run.returncode == 0, report.read_text() + "".join(lines)
    assert not missing
    assert any("stopping: no more faults" in line for line in lines)
    assert re.search(r"\| nftables \| [0-2]\.\d", report.read_text())
    assert not is_running(f"chaos-{run.pid}")


def test_a_lab_ends_when_its_run_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    argv = (sys.executable, "-c", _HOLD_A_LAB)
    with unmounted_afterwards(tmp_path), subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        name = run.stdout.readline().strip()
        assert is_running(name)
        run.kill()
        eventually(lambda: not is_running(name))


def is_running(lab: str) -> bool:
    """Return whether the first process of a lab of this name runs."""
    wanted = f"bridgehead-lab {lab}".encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().rstrip(b"\0") == wanted:
                return True
        except OSError:  # it has ended
            continue
    return False


@contextmanager
def unmounted_afterwards(directory: Path) -> Iterator[None]:
    """Remove the file systems of runs that were killed, which nobody else does."""
    try:
        yield
    finally:
        for path in directory.glob("chaos-*"):
            if path.is_mount():
                subprocess.run(("umount", "--lazy", path), check=True)

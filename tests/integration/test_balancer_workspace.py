"""Directories of speakers: those of killed ones are removed by the next speaker, those of living ones are not."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehead.balancer.workspace import Workspace

pytestmark = pytest.mark.integration


def killed_speaker() -> int:
    """Be a speaker that is killed while it has files and a child that is stopped. Return the child's process id."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        with Workspace() as workspace:
            file = workspace.make_directory("bgp") / "exabgp.conf"
            file.write_text("a password")
            child = subprocess.Popen(["tail", "-f", str(file)], stdout=subprocess.DEVNULL)
            child.send_signal(signal.SIGSTOP)
            os.write(writer, str(child.pid).encode())
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    os.close(writer)
    with os.fdopen(reader) as written:
        return int(written.read())


def is_living(pid: int) -> bool:
    """Return whether a process runs or is stopped; one that only waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_speaker_removes_what_killed_ones_have_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    child = killed_speaker()
    [left] = tmp_path.iterdir()
    assert is_living(child)
    with Workspace() as living:
        assert not left.exists()
        until(lambda: not is_living(child))
        assert list(tmp_path.iterdir()) == []  # nothing is made before it is needed
        directory = living.make_directory("bgp")
        assert stat.S_IMODE(directory.parent.stat().st_mode) == 0o700
        assert living.make_directory("vrrp").parent == directory.parent
        killed_speaker()
        with Workspace():
            assert list(tmp_path.iterdir()) == [directory.parent]
    assert list(tmp_path.iterdir()) == []

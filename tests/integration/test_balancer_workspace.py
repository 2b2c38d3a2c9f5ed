"""Directories of speakers: those of killed ones are removed by the next speaker, those of living ones are not."""

from __future__ import annotations

import os
import signal
import stat
import tempfile
from pathlib import Path

import pytest

from bridgehead.balancer.workspace import Workspace

pytestmark = pytest.mark.integration


def killed_speaker() -> None:
    """Be a speaker that is killed while it has files."""
    pid = os.fork()
    if pid == 0:
        with Workspace() as workspace:
            (workspace.make_directory("bgp") / "exabgp.conf").write_text("a password")
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def test_a_speaker_removes_what_killed_ones_have_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed_speaker()
    [left] = tmp_path.iterdir()
    with Workspace() as living:
        assert not left.exists()
        assert list(tmp_path.iterdir()) == []  # nothing is made before it is needed
        directory = living.make_directory("bgp")
        assert stat.S_IMODE(directory.parent.stat().st_mode) == 0o700
        assert living.make_directory("vrrp").parent == directory.parent
        killed_speaker()
        with Workspace():
            assert list(tmp_path.iterdir()) == [directory.parent]
    assert list(tmp_path.iterdir()) == []

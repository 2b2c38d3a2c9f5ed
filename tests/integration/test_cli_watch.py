"""`bridgehead watch` without an image, which needs no lab: what its command does wrong, and its end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

SECONDS = 60
COMMAND = [sys.executable, "-c", "from bridgehead.cli import main; main()", "watch", "--state-dir=lab", "--path=src"]


@contextmanager
def watching(directory: Path, *argv: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `watch` in a directory with its output in the file `output` there."""
    (directory / "src").mkdir()
    with (
        (directory / "output").open("wb") as output,
        subprocess.Popen([*COMMAND, "--", *argv], cwd=directory, stdout=output, stderr=output) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def until(condition: Callable[[], object], output: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, output.read_text()
        time.sleep(0.02)


def test_a_script_that_is_missing_for_a_moment_is_a_line(tmp_path: Path) -> None:
    script, output, log = tmp_path / "build", tmp_path / "output", tmp_path / "log"
    script.write_text(f"#!/bin/sh\necho run >> {log}\n")
    script.chmod(0o755)
    with watching(tmp_path, str(script)) as process:
        until(lambda: output.read_text().count("waiting for a change") == 1, output)
        script.rename(tmp_path / "away")
        (tmp_path / "src" / "a\x1b[2J").write_text("")
        until(lambda: f"{script}: No such file or directory" in output.read_text(), output)
        assert "changed: src/a?[2J\n" in output.read_text()
        until(lambda: output.read_text().count("waiting for a change") == 2, output)
        (tmp_path / "away").rename(script)
        (tmp_path / "src" / "b").write_text("")
        until(lambda: log.read_text() == 2 * "run\n", output)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0


def test_the_end_of_watch_is_that_of_all_its_command_started(tmp_path: Path) -> None:
    output, started = tmp_path / "output", tmp_path / "started"
    inner = f"sleep 1000 & echo $! > {started}; wait"
    with watching(tmp_path, "sh", "-c", f"sh -c '{inner}'; true") as process:
        until(lambda: started.exists() and started.read_text().endswith("\n"), output)
        sleep = Path("/proc", started.read_text().strip(), "comm")
        assert sleep.read_text() == "sleep\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
        # A process that has ended may wait for its new parent, which collects it.
        until(lambda: is_gone(sleep.parent), output)


def is_gone(process: Path) -> bool:
    try:
        return "\nState:\tZ" in (process / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True

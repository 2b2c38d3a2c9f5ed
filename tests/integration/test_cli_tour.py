"""Commands of `bridgehead tour` in a real shell."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from bridgehead.cli.tour_walk import Shell

pytestmark = pytest.mark.integration


def until_ended(process: int) -> None:
    """Wait for the end of a process that nobody here has started."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except OSError:
            return
        time.sleep(0.01)
    raise AssertionError(f"process {process} runs on")


def test_output_and_errors_are_one_text_and_input_is_passed_on() -> None:
    result = Shell().run("cat; echo wrong >&2; exit 3", stdin="given\n")
    assert result == (3, "given\nwrong\n")


def test_a_command_that_does_not_end_is_ended_with_its_processes(tmp_path: Path) -> None:
    result = Shell().run(f"sleep 1000 & echo $! > {tmp_path}/child; sleep 1000", seconds=0.5)
    assert result.code == 124
    until_ended(int((tmp_path / "child").read_text()))


def test_ctrl_c_ends_the_command_with_its_processes(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def interrupt() -> None:
        fifo.read_text()  # the command runs
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            Shell().run(f"sleep 1000 & echo $! > {tmp_path}/child; echo > {fifo}; sleep 1000")
    finally:
        thread.join()
    until_ended(int((tmp_path / "child").read_text()))

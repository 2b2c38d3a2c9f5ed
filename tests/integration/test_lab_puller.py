"""The process beside a lab that waits for the first request to pull an image."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridgehead.cli.up import puller_program
from bridgehead.images.service.client import SOCKET
from bridgehead.lab.plan import LabFiles

pytestmark = pytest.mark.integration

FORK = f"""
import sys
from pathlib import Path
from bridgehead.lab import puller
from bridgehead.lab.plan import LabConfig, LabFiles
from bridgehead.lab.puller import fork_puller

collect = puller._collect

def collect_later(*arguments):
    Path(sys.argv[1], "listens-before-collecting").write_text(str(Path("{SOCKET}").exists()))
    collect(*arguments)

puller._collect = collect_later
config = LabConfig(name="x", nodes=1, port=1)
fork_puller(config, LabFiles(Path(sys.argv[1])), None, int(sys.argv[2]), (sys.executable, "-c", sys.argv[3]))
"""

PROGRAM = """
import os, socket, sys, msgspec
puller = msgspec.json.decode(sys.argv[1])
listener = socket.socket(fileno=4)
connection, _ = listener.accept()
connection.sendall(f"{puller['name']} {puller['root']} {sorted(os.listdir('/proc/self/fd'))}".encode())
"""

FAILS_ONCE = """
import errno, os, sys
from bridgehead.lab import puller

function = os.FUNCTION

def fail(*_):
    os.FUNCTION = function
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

def answer(puller, listener, lab, parent, *, has_shared):
    connection, _ = listener.accept()
    connection.sendall(b"served")
    os._exit(0)

os.FUNCTION, puller._serve = fail, answer
puller.serve(sys.argv[1])
"""


HANGS_ONCE = """
import asyncio, functools, os, sys, time
from pathlib import Path
from bridgehead import heartbeat
from bridgehead.lab import puller

async def hang(connection):
    heartbeat.start(asyncio.get_running_loop().call_later)
    time.sleep(600)

def answer(puller, listener, lab, parent, *, has_shared):
    connection, _ = listener.accept()
    if not Path("hangs").exists():
        Path("hangs").touch()
        asyncio.run(hang(connection))
    connection.sendall(b"served")
    os._exit(0)

puller._serve = answer
puller.PartWatch = functools.partial(puller.PartWatch, silent_seconds=1.0)
puller.serve(sys.argv[1])
"""


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextlib.contextmanager
def waiting(root: Path, program: str = PROGRAM) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Start the process beside a lab whose first process is `sleep`; yields its process id, and the lab."""
    files = LabFiles(root)
    files.log("puller").parent.mkdir()
    files.content.mkdir()
    with subprocess.Popen(["sleep", "600"]) as lab:
        try:
            subprocess.run([sys.executable, "-c", FORK, str(root), str(lab.pid), program], check=True, timeout=60)
            until(lambda: bool(in_directory(files.content)))
            [pid] = in_directory(files.content)
            until(lambda: Path(f"/proc/{pid}/comm").read_text() == "bridgehead-pull\n")
            yield pid, lab
        finally:
            lab.kill()


def ask(root: Path) -> str:
    """Connect to the puller; returns all that it sends."""
    directory = os.open(root / "content", os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            client.connect(f"/proc/self/fd/{directory}/{SOCKET}")
            return client.makefile().read()
    finally:
        os.close(directory)


def in_directory(directory: Path) -> Iterator[int]:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").samefile(directory):
                yield int(process.name)


def test_a_small_program_waits_and_the_first_request_starts_the_puller(tmp_path: Path) -> None:
    with waiting(tmp_path) as (pid, _):
        assert (tmp_path / "listens-before-collecting").read_text() == "True"
        assert "msgspec" not in Path(f"/proc/{pid}/maps").read_text()
        answer = ask(tmp_path)
        # The last two descriptors are those of the connection and of the list itself.
        assert answer == f"x {tmp_path} {[str(number) for number in range(7)]}"


@pytest.mark.parametrize("function", ["fork", "pidfd_open"])
def test_a_puller_that_cannot_be_started_is_tried_again(tmp_path: Path, function: str) -> None:
    def is_served() -> bool:
        with contextlib.suppress(ConnectionResetError):  # by the end of a process that was started in vain
            return ask(tmp_path) == "served"
        return False

    with waiting(tmp_path, FAILS_ONCE.replace("FUNCTION", function)):
        is_served()
        # The second may be served, and ended, before the failure is seen.
        until(lambda: "cannot start, and is tried again: Resource" in LabFiles(tmp_path).log("puller").read_text())
        until(is_served)


def test_a_puller_that_hangs_is_killed_and_the_next_request_starts_another_one(tmp_path: Path) -> None:
    with waiting(tmp_path, HANGS_ONCE):
        with contextlib.suppress(ConnectionResetError):
            assert ask(tmp_path) == ""
        assert ask(tmp_path) == "served"
        log = LabFiles(tmp_path).log("puller").read_text()
        assert "the puller hangs: it did not answer for 1 s, its event loop waits; killing it" in log
        assert "in hang" in log, "the stacks of the process that hangs"


def test_the_program_that_waits_ends_with_the_lab(tmp_path: Path) -> None:
    with waiting(tmp_path) as (pid, lab):
        lab.kill()
        lab.wait()
        until(lambda: not Path(f"/proc/{pid}").exists())


def test_the_pullers_program_has_the_modules_of_up_and_none_of_its_directory(tmp_path: Path) -> None:
    """The directory is the lab's. Modules that a user names in PYTHONPATH are found as in `up`."""
    for name in ("msgspec", "runpy", "socket"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a module of the lab')")
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run([*puller_program(), "{"], cwd=tmp_path, env=environment, capture_output=True, timeout=60)
    assert b"msgspec.DecodeError" in done.stderr
    assert b"a module of the lab" not in done.stderr

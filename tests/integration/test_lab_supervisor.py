"""The supervisor as a process of its own: it starts parts again, and takes them with it when it is stopped."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.lab import state_directories
from bridgehead.lab.errors import AlreadyRunning, NotRunning
from bridgehead.lab.plan import LabFiles, PartStatus
from bridgehead.lab.state_directories import find_orphan

pytestmark = pytest.mark.integration

DEADLINE = 60.0

SILENT_SECONDS = 1.0

SCRIPT = """
import asyncio, os, pathlib, signal, sys, threading
import uvloop
from bridgehead import heartbeat
from bridgehead.kubelet.runtimes.service.reactor import Reactor
from bridgehead.lab.plan import LabFiles, PartPlan
from bridgehead.lab.supervisor import Supervisor

def run_part(argv):
    match argv:
        case ["wait", *_]:
            print("waiting as", os.getppid(), flush=True)
            signal.pause()
        case ["exit", code]:
            sys.exit(int(code))
        case ["raise"]:
            raise RuntimeError("something new")
        case ["reactor"]:
            reactor = Reactor()
            heartbeat.start(reactor.call_later)
            print("waiting", flush=True)
            reactor.run()
        case ["spin", *_]:
            asyncio.run(serve(spin))
        case ["lock", *_]:
            lock = threading.Lock()
            lock.acquire()
            uvloop.run(serve(lock.acquire))
        case [name, *_]:
            signal.signal(signal.SIGTERM, lambda *_: end(name))
            print("waiting", flush=True)
            signal.pause()

def end(name):
    print(name, file=open(sys.argv[1] + "/ended", "a"))
    sys.exit()

async def serve(block):
    loop = asyncio.get_running_loop()
    heartbeat.start(loop.call_later)
    loop.add_signal_handler(signal.SIGTERM, sys.exit)
    loop.add_signal_handler(signal.SIGHUP, block)
    print("waiting", flush=True)
    await asyncio.Event().wait()

def spin():
    while True:
        pass

plans = [PartPlan(name, tuple(name.split("-")), is_program=name.startswith("sleep")) for name in sys.argv[3:]]
Supervisor(plans, LabFiles(pathlib.Path(sys.argv[1])), run_part, silent_seconds=float(sys.argv[2])).run()
"""


class Supervised:
    """A supervisor of parts whose names are their command lines."""

    def __init__(self, root: Path, *parts: str, silent_seconds: float = 30) -> None:
        self.files = LabFiles(root)
        for directory in self.files.written_inside:
            directory.mkdir(parents=True)
        self.lock = state_directories.lock(self.files)
        self.log = root / "logs" / "init.log"
        with self.log.open("w") as log:
            arguments = [sys.executable, "-c", SCRIPT, str(root), str(silent_seconds), *parts]
            self.process = subprocess.Popen(arguments, stderr=log)

    def part(self, name: str) -> PartStatus | None:
        return next((part for part in state_directories.read_parts(self.files) if part.name == name), None)

    def eventually(self, what: Callable[[PartStatus], Any], name: str) -> PartStatus:
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            part = self.part(name)
            if part and what(part):
                return part
            time.sleep(0.01)
        pytest.fail(f"not so within {DEADLINE:g} s: {self.part(name)}")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE)


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Callable[..., Supervised]]:
    started: list[Supervised] = []

    def start(*parts: str, **options: float) -> Supervised:
        started.append(Supervised(tmp_path / "lab", *parts, **options))
        return started[-1]

    yield start
    for supervised in started:
        os.close(supervised.lock)
        if supervised.process.poll() is None:
            supervised.stop()


def test_parts_that_exit_are_restarted(supervise: Callable[..., Supervised]) -> None:
    lab = supervise("wait", "exit-3", "raise")
    assert lab.eventually(lambda part: part.restarts >= 3, "exit-3").last_exit == "exit code 3"
    assert lab.eventually(lambda part: part.restarts >= 1, "raise").last_exit == "exit code 1"
    assert "RuntimeError: something new" in lab.files.log("raise").read_text()
    waiting = lab.eventually(lambda part: part.pid, "wait")
    assert waiting.restarts == 0

    os.kill(waiting.pid, signal.SIGKILL)
    again = lab.eventually(lambda part: part.restarts == 1 and part.pid, "wait")
    assert again.last_exit == "signal SIGKILL"
    assert again.pid != waiting.pid


def test_a_part_may_be_another_program(supervise: Callable[..., Supervised]) -> None:
    lab = supervise("sleep-600", "sleep-nothing")
    part = lab.eventually(lambda part: part.pid, "sleep-600")
    deadline = time.monotonic() + DEADLINE
    while (title := Path(f"/proc/{part.pid}/cmdline").read_bytes()) != b"sleep\x00600\x00":
        assert time.monotonic() < deadline, title
        time.sleep(0.01)
    assert lab.eventually(lambda part: part.restarts, "sleep-nothing").last_exit == "exit code 1"
    assert "nothing" in lab.files.log("sleep-nothing").read_text()
    os.kill(part.pid, signal.SIGKILL)
    assert lab.eventually(lambda part: part.restarts == 1 and part.pid, "sleep-600").last_exit == "signal SIGKILL"


def test_statuses_are_written_once_that_is_possible(supervise: Callable[..., Supervised]) -> None:
    lab = supervise("wait")
    before = lab.eventually(lambda part: part.pid, "wait")
    wait_for_line(lab.files.log("wait"), "waiting")
    obstacle = lab.files.parts.with_suffix(".new")
    obstacle.mkdir()
    os.kill(before.pid, signal.SIGKILL)
    wait_for_line(lab.files.log("wait"), "waiting", count=2)
    assert lab.part("wait") == before
    obstacle.rmdir()
    assert lab.eventually(lambda part: part.restarts and part.pid, "wait").pid != before.pid


def test_stopping_the_supervisor_stops_its_parts(supervise: Callable[..., Supervised]) -> None:
    """The signal may arrive during a fork."""
    lab = supervise("wait", "wait-2")
    pids = [lab.eventually(lambda part: part.pid, name).pid for name in ("wait", "wait-2")]
    assert lab.stop() == 0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_kubelets_are_stopped_first_and_the_store_last(supervise: Callable[..., Supervised]) -> None:
    """A kubelet that sees its runtime end would restart the containers of its pods, and count that."""
    parts = ("etcd", "apiserver", "runtime-node1", "kubelet-node1")
    lab = supervise(*parts)
    for name in parts:
        lab.eventually(lambda part: part.pid, name)
        wait_for_line(lab.files.log(name), "waiting")
    assert lab.stop() == 0
    assert (lab.files.root / "ended").read_text().split() == ["kubelet", "runtime", "apiserver", "etcd"]


def test_a_failed_write_of_the_status_affects_nothing_else(supervise: Callable[..., Supervised]) -> None:
    lab = supervise("wait", "exit-3")
    waiting = lab.eventually(lambda part: part.pid, "wait")
    wait_for_line(lab.files.log("wait"), "waiting")
    replace_by_directory(lab.files.parts)
    os.kill(waiting.pid, signal.SIGKILL)
    wait_for_line(lab.files.log("wait"), "waiting", count=2)
    assert lab.process.poll() is None


def test_a_lab_ends_when_its_state_directory_is_deleted(supervise: Callable[..., Supervised]) -> None:
    lab = supervise("wait")
    waiting = lab.eventually(lambda part: part.pid, "wait")
    lab.files.lock.chmod(0o600)
    os.utime(lab.files.lock)
    assert lab.eventually(lambda part: part.pid, "wait").pid == waiting.pid  # that was no deletion
    while lab.files.root.exists():
        shutil.rmtree(lab.files.root, ignore_errors=True)  # fails when the lab writes its state at this moment
    assert lab.process.wait(DEADLINE) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(waiting.pid, 0)


def test_parts_that_hang_are_restarted(supervise: Callable[..., Supervised]) -> None:
    hangs = {
        "spin": (signal.SIGHUP, "its event loop is blocked"),
        "lock": (signal.SIGHUP, "its event loop waits"),
        "reactor": (signal.SIGSTOP, "it is stopped"),
        "spin-stopped": (signal.SIGSTOP, "it is stopped"),
    }
    lab = supervise(*hangs, "spin-well", "wait", silent_seconds=SILENT_SECONDS)
    parts = {name: lab.eventually(lambda part: part.pid, name) for name in (*hangs, "spin-well", "wait")}
    for name in parts:
        wait_for_line(lab.files.log(name), "waiting")
    for name, (number, _) in hangs.items():
        os.kill(parts[name].pid, number)
    for name, (_, why) in hangs.items():
        again = lab.eventually(lambda part: part.restarts == 1 and part.pid, name)
        assert again.last_exit.endswith(why)
        wait_for_line(lab.files.log(name), "waiting", count=2)
        assert f"{name} hangs: it did not answer for" in lab.log.read_text()
    assert "in spin" in lab.files.log("spin").read_text(), "the stacks of a part that hangs are in its log"
    for name in ("spin-well", "wait"):
        assert lab.part(name) == parts[name]


def replace_by_directory(path: Path) -> None:
    """Replace a file by a directory, even though another process puts the file there again and again."""
    while not path.is_dir():
        path.unlink(missing_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir()


def wait_for_line(log: Path, word: str, count: int = 1) -> None:
    deadline = time.monotonic() + DEADLINE
    while not log.exists() or log.read_text().count(word) < count:
        if time.monotonic() > deadline:
            pytest.fail(f"no {word!r} in {log}")
        time.sleep(0.01)


# --- Labs whose directory was deleted, before they have ended ---------------------------------------------


ORPHAN = """
import os, pathlib, sys, time
from bridgehead.lab import state_directories
from bridgehead.lab.errors import AlreadyRunning, NotRunning
from bridgehead.lab.state_directories import find_orphan
from bridgehead.lab.plan import LabFiles, PartStatus
from bridgehead.network.syscalls import set_process_name
files = LabFiles(pathlib.Path(sys.argv[1]))
held = state_directories.lock(files)
set_process_name("bridgehead-lab")
files.lock.unlink()
print("deleted", flush=True)
time.sleep(600)
"""


@pytest.fixture
def files(tmp_path: Path) -> LabFiles:
    return LabFiles(tmp_path / "lab")


@pytest.fixture
def orphan(files: LabFiles) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts what looks like a lab without a directory."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", ORPHAN, str(files.root)], stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"deleted\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_lab_does_not_start_beside_an_orphan_of_itself(
    files: LabFiles, orphan: Callable[[], subprocess.Popen[bytes]]
) -> None:
    process = orphan()
    with pytest.raises(NotRunning, match="was deleted, and the lab that ran in it is ending"):
        state_directories.read_running(files)
    with pytest.raises(AlreadyRunning, match=rf"process {process.pid}\); `bridgehead down`"):
        state_directories.await_orphan(files, bound=0)
    ending = threading.Timer(0.1, process.kill)
    ending.start()
    state_directories.await_orphan(files)
    assert find_orphan(files) is None
    ending.join()


def test_down_stops_an_orphan(files: LabFiles, orphan: Callable[[], subprocess.Popen[bytes]]) -> None:
    process = orphan()
    os.close(state_directories.lock(files))  # by an `up` that gave up
    state_directories.stop(files)
    assert process.wait(60) == -signal.SIGTERM

"""A lab that cannot start, from its command."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bridgehead.lab import state_directories
from bridgehead.lab.plan import LabFiles

pytestmark = pytest.mark.integration


@pytest.mark.needs("nft")  # whose lack is reported first
def test_a_write_error_is_reported_and_leaves_no_process(tmp_path: Path) -> None:
    root = tmp_path / "lab"
    root.mkdir()
    (root / "pki").write_text("where the certificates go, which are made while the lab's first process starts")
    command = [sys.executable, "-c", "from bridgehead.cli import main; main()"]
    up = [*command, "up", "--detach", "--name=unwritable", f"--state-dir={root}"]
    done = subprocess.run(up, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1
    assert f"cannot write to {root}" in done.stderr
    deadline = time.monotonic() + 60
    while state_directories.is_running(LabFiles(root)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


UP = """
import os, signal, socket, sys
from pathlib import Path
from bridgehead.lab import launch
from bridgehead.lab.plan import LabConfig, LabFiles

files = LabFiles(Path(sys.argv[1]))
files.log("init").parent.mkdir()
config = LabConfig(name="x", nodes=1, port=1, host_access=True)
parent = os.getpid()

def fail(*_):
    os.kill(parent, signal.SIGKILL)
    raise OSError("there is nobody left to tell")

launch._leave_host = fail
try:
    launch.launch(
        config, files, id_map=None, api_socket=socket.socket(), lock_fd=-1, run_part=None, preload=None, puller=(),
        prepare=signal.pause,
    )
finally:
    print("the command goes on in the wrong process", flush=True)
"""


def test_a_killed_command_leaves_no_process(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", UP, str(tmp_path)], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")


CHECK = """
from bridgehead.lab import preflight, namespace_trial

def fail(id_map):
    raise RuntimeError("something nobody thought of")

namespace_trial._leave = fail
try:
    preflight.check_namespaces()
except Exception as error:
    print(error, flush=True)
"""


def test_an_unexpected_failure_of_the_kernel_check_is_reported_once() -> None:
    done = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "cannot try this kernel: RuntimeError: something nobody thought of\n")

"""The system calls against the real kernel, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

SOURCE = Path(__file__).resolve().parents[2] / "src"

# A process that does nothing else forks: with other threads around, a child can stand still.
FORKED = """
import os, sys
from pathlib import Path
from bridgehead.network import syscalls
before, title = Path("/proc/self/cmdline").read_bytes(), sys.stdin.read()
if os.fork() == 0:
    syscalls.set_process_name("a-name-longer-than-15", title)
    os.write(1, Path("/proc/self/comm").read_bytes() + Path("/proc/self/cmdline").read_bytes())
    os._exit(0)
os.wait()
assert Path("/proc/self/cmdline").read_bytes() == before
sys.stderr.write(str(len(before)))
"""


@pytest.mark.parametrize("title", ["bridgehead part --with=options", "short", "x" * 10_000])
def test_a_forked_process_has_its_own_title(title: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", FORKED],
        input=title.encode(),
        capture_output=True,
        check=True,
        timeout=240,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
    )
    name, _, shown = result.stdout.partition(b"\n")
    assert name == b"a-name-longer-t"
    assert shown.rstrip(b"\0") == title.encode()[: int(result.stderr) - 2]


FORKS = """
import os, sys
from bridgehead.network import syscalls
os.register_at_fork(after_in_child=lambda: os.write(1, b"handler "))
for fork in (os.fork, syscalls.fork_plainly):
    pid = fork()
    if pid == 0:
        os.write(1, b"child ")
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
"""


def test_a_plain_fork_calls_no_handlers() -> None:
    result = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True)
    assert (result.stdout.split(), result.stderr) == (["handler", "child", "child"], "")

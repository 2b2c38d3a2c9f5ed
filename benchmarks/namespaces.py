"""Programs of benchmarks in network, mount and mostly user namespaces of their own.

`start` runs a module of this package there; the module calls `enter` first. When the process that called `start` is
gone, however it ended, the program is killed, with everything that it has started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple, NoReturn

_ROOT = Path(__file__).parents[1]
# Two steps: files in the /proc/net of a network namespace belong to its root only if users are mapped before.
_BECOME_ROOT = ("unshare", "--user", "--map-root-user")
_ISOLATE = ("unshare", "--net", "--mount")


class Result(NamedTuple):
    """Exit status and standard output of a program."""

    status: int
    output: str


def start(module: str, *arguments: str, keeps_root: bool = False) -> Result:
    """Run `python -m module` in the namespaces until it ends. The first argument is this network namespace.

    `keeps_root`: if this is the machine's root, the program is it, too: there is no user namespace.
    """
    become_root = () if keeps_root and os.geteuid() == 0 else _BECOME_ROOT
    command = [*become_root, *_ISOLATE, sys.executable, "-m", module, os.readlink("/proc/self/ns/net"), *arguments]
    reading, writing = os.pipe()  # nothing is written: the program sees its end when this process has ended
    try:
        result = subprocess.run(
            command, cwd=_ROOT, stdin=reading, stdout=subprocess.PIPE, text=True, start_new_session=True, check=False
        )
    finally:
        os.close(reading)
        os.close(writing)
    return Result(result.returncode, result.stdout)


def enter(forbidden: str) -> None:
    """Prepare the program. `forbidden`: the network namespace of the process that called `start`."""
    if os.readlink("/proc/self/ns/net") == forbidden:
        raise SystemExit("this is the network namespace that the benchmark was started in; not touching it")
    threading.Thread(target=_end_with_standard_input, daemon=True).start()
    for command in (["mount", "-t", "tmpfs", "none", "/run"], ["ip", "link", "set", "lo", "up"]):
        subprocess.run(command, check=True)


def _end_with_standard_input() -> NoReturn:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)  # the process group of `start`: this process, and all that it has started
    os._exit(1)

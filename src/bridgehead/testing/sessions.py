"""The lab of a session of tests: the first process that needs it starts it.

The module imports little, because the lab starts later by as much; the rest is imported while it starts.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from bridgehead.lab import state_directories
from bridgehead.lab.errors import LabError
from bridgehead.lab.plan import LabFiles, plan_nodes

from .programs import command_line

if TYPE_CHECKING:
    from .labs import Lab


class StartFailed(Exception):
    """The lab does not start. The text has the reason and its log."""


def open_lab(name: str, options: Sequence[str], tests: int, lock: Path, proxy_mode: str | None = None) -> Lab:
    """Return the lab of this name, which the first process of the tests that asks for it starts.

    `options` are of `bridgehead up`; `tests` is the PID of the process with which the lab ends; `lock` is a file that
    the processes of the tests share; `proxy_mode` is that of the lab's proxies, None for theirs. Raises `StartFailed`.
    """
    try:
        files = state_directories.find_files(name, None)
        with lock.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not state_directories.is_running(files):
                _start(name, options, tests)
                if proxy_mode:
                    _configure(files, proxy_mode)
        config = state_directories.read_running(files).config
    except LabError as error:
        raise StartFailed(str(error)) from None
    from .labs import Lab

    return Lab(name, files, {node.name: node.addresses[0] for node in plan_nodes(config)}, config.context)


def _start(name: str, options: Sequence[str], tests: int) -> None:
    """Start a lab by a process that stays, and stops it when the process `tests` ends."""
    ready, writer = os.pipe()
    watched = os.pidfd_open(tests)
    argv = command_line("bridgehead.testing.starter", watched, writer, name, *options)
    with open(ready, "rb", buffering=0) as pipe, tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                argv,
                pass_fds=(watched, writer),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        finally:
            os.close(writer)
            os.close(watched)
        importlib.import_module("bridgehead.testing.fixture_types")  # the tests need it, and the lab takes its time
        if not pipe.read(1):
            process.wait()
            raise StartFailed(_read(output))
        process.returncode = 0  # it outlives this process, and is not waited for


def _configure(files: LabFiles, proxy_mode: str) -> None:
    from . import proxy_modes

    try:
        proxy_modes.configure(files, proxy_mode)
    except proxy_modes.ModeNotUsed as error:
        raise StartFailed(str(error)) from None


def _read(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read().decode(errors="replace").strip() or "the lab's starter ended without an error message"

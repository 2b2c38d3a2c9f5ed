"""One ExaBGP as a child process: its configuration, its commands and its answers.

The configuration may contain a password, so it is in a directory that only this user may open. ExaBGP reads it anew on
the command reload.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import sys
from collections import deque
from pathlib import Path

from ..child_process import end, read_line
from ..users import existing_user_name
from ..workspace import Workspace
from .exabgp import ENVIRONMENT, Answer, parse_answer

log = logging.getLogger("bridgehead.balancer.bgp")

_LONGEST_LINE = 1 << 20  # bytes; ExaBGP's own limit
_END_SECONDS = 3.0
_LAST_LINES = 12  # of the log, for the report of an unexpected end


class ExaBgpProcess:
    """A running ExaBGP. Make it with `start`; `stop` it in every case."""

    def __init__(
        self, process: asyncio.subprocess.Process, configuration: Path, commands: asyncio.WriteTransport
    ) -> None:
        self._process = process
        self._configuration = configuration
        self._commands = commands
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._log_reader = asyncio.create_task(self._read_log())

    @classmethod
    async def start(cls, configuration: str, workspace: Workspace) -> ExaBgpProcess:
        """Start ExaBGP. Raises OSError."""
        with contextlib.ExitStack() as on_error:
            file = workspace.make_directory("bgp") / "exabgp.conf"
            on_error.callback(_remove, file)
            _write(file, configuration)
            # Pipes, since the helper that ExaBGP starts opens them by their names in /proc.
            commands_end, commands = os.pipe()
            on_error.callback(os.close, commands)
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "bridgehead.balancer.bgp.exabgp_main", str(os.getpid()), str(file),
                    stdin=commands_end,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    limit=_LONGEST_LINE,
                    env=os.environ | ENVIRONMENT | {"exabgp_daemon_user": existing_user_name()},
                )  # fmt: skip
            finally:
                os.close(commands_end)
            transport, _ = await asyncio.get_running_loop().connect_write_pipe(
                asyncio.Protocol, os.fdopen(commands, "wb", 0)
            )
            on_error.pop_all()
        return cls(process, file, transport)

    @property
    def pid(self) -> int:
        return self._process.pid

    def command(self, line: str) -> None:
        """Send a command. A process that has ended ignores it."""
        self._commands.write(line.encode() + b"\n")

    def configure(self, configuration: str) -> None:
        """Replace the configuration file; the command reload makes ExaBGP read it."""
        _write(self._configuration, configuration)

    def kill(self) -> None:
        """End the process without any cleanup; `answer` then returns None."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def answer(self) -> Answer | None:
        """Return the next answer; None when the process has ended."""
        while (line := await read_line(self._process.stdout)) is not None:
            answer = parse_answer(line)
            if answer.kind != "other":
                return answer
        return None

    async def stop(self) -> str:
        """End the process. Return the last lines of its log."""
        if not self._commands.is_closing():  # else the process has ended, or its helper that reads the commands
            self._commands.abort()
        await end(self._process, _END_SECONDS)
        _remove(self._configuration)
        self._log_reader.cancel()
        await asyncio.wait([self._log_reader])
        return "\n".join(self._last_lines)

    async def _read_log(self) -> None:
        while (line := await read_line(self._process.stderr)) is not None:
            self._last_lines.append(line)
            log.debug("ExaBGP %d: %s", self._process.pid, line)


def _write(file: Path, configuration: str) -> None:
    file.write_text(configuration)


def _remove(file: Path) -> None:
    shutil.rmtree(file.parent, ignore_errors=True)

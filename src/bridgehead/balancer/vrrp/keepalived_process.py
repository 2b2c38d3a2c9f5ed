"""keepalived as a child process: configuration, reloads, and which groups this node is the master of.

keepalived consists of two processes; the second one speaks VRRP. A process that is stopped (SIGSTOP, a debugger) sends
no advertisements, so another node becomes the master, and would answer beside that node if it were continued: both
processes are killed as soon as one is stopped or has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path

from bridgehead.balancer.child_process import end, read_line
from bridgehead.balancer.process_lookup import is_stopped
from bridgehead.balancer.workspace import Workspace

from .keepalived import parse_notification

log = logging.getLogger("bridgehead.balancer.vrrp")

_END_SECONDS = 5.0
_LAST_LINES = 12  # of the log, for the report of an unexpected end
_READ_BYTES = 1 << 16
# Lines of the log. The second process is not there until the configuration has a group.
_STARTED = ("Startup complete", "keepalived has no configuration to run")
_RELOADED = "Reload complete"
_LOOK_SECONDS = 0.1  # between looks at the states of the processes


class KeepalivedProcess:
    """A running keepalived. `on_state` gets a group's name and whether this node is its master now.

    `on_reloaded` is called when a reloaded configuration is in force.
    `run` it once. The configuration is rendered by `render`, which gets the path of the FIFO for notifications.
    """

    def __init__(
        self,
        program: str,
        workspace: Workspace,
        render: Callable[[str], str],
        on_state: Callable[[str, bool], None],
        on_reloaded: Callable[[], None],
    ) -> None:
        self._program = program
        self._workspace = workspace
        self._render = render
        self._on_state = on_state
        self._on_reloaded = on_reloaded
        self._directory = Path()
        self._process: asyncio.subprocess.Process | None = None
        self._is_started = self._has_to_reload = False
        self._rest = self._text = ""  # of notifications, and the configuration
        self.last_lines: deque[str] = deque(maxlen=_LAST_LINES)

    async def run(self) -> None:
        """Run keepalived until cancelled, which ends it with its addresses, or until it ends. Raises OSError."""
        self._directory = self._workspace.make_directory("vrrp")
        fifo = self._directory / "notifications"
        os.mkfifo(fifo, 0o600)
        # Open for writing, too, so that there is always a writer, and never an end of file.
        notifications = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
        loop = asyncio.get_running_loop()
        loop.add_reader(notifications, self._read, notifications)
        try:
            self._write()
            self._process = process = await self._start()
            following = asyncio.create_task(self._follow_log(process))
            try:
                await self._wait(process)
            finally:
                await end(process, _END_SECONDS)
                _kill_group(process)
                # The log ends with the second process.
                await asyncio.wait([following], timeout=_END_SECONDS)
                following.cancel()
        finally:
            self._process = None
            loop.remove_reader(notifications)
            os.close(notifications)
            shutil.rmtree(self._directory, ignore_errors=True)

    async def _wait(self, process: asyncio.subprocess.Process) -> None:
        """Return when keepalived has ended; kill it when it is stopped."""
        ended = asyncio.create_task(process.wait())
        try:
            while not ended.done():
                await asyncio.wait([ended], timeout=_LOOK_SECONDS)
                if is_stopped(process.pid) or is_stopped(self._vrrp_pid()):
                    log.error("keepalived was stopped by a signal: starting another one")
                    _kill_group(process)
        finally:
            ended.cancel()

    def _vrrp_pid(self) -> int:
        """Return the process id of the process that speaks VRRP; 0 before it has started."""
        try:
            return int((self._directory / "vrrp-pid").read_text())
        except (OSError, ValueError):
            return 0

    def reload(self) -> None:
        """Let keepalived read its configuration, rendered anew. Instances that are in it still keep their state.

        Raises OSError if the configuration cannot be written.
        """
        if self._text:  # also while the process is being created; `run` writes the first configuration
            self._has_to_reload |= self._write()
            self._request_reload()

    def _request_reload(self) -> None:
        """Request a reload, but not before keepalived has started: the signal would end it."""
        if self._has_to_reload and self._is_started and self._process is not None:
            self._has_to_reload = False
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGHUP)

    def _write(self) -> bool:
        """Write the configuration. Return whether it has changed: a master that reloads announces its addresses."""
        text = self._render(str(self._directory / "notifications"))
        has_changed, self._text = text != self._text, text
        fresh = self._directory / "keepalived.conf.new"
        fresh.write_text(text)
        fresh.replace(self._directory / "keepalived.conf")  # keepalived may be reading the last one
        return has_changed

    async def _start(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "bridgehead.balancer.vrrp.keepalived_main", str(os.getpid())),
            *(self._program, "--vrrp", "--dont-fork", "--dont-respawn", "--log-console", "--no-syslog"),
            *("--use-file", str(self._directory / "keepalived.conf")),
            *("--pid", str(self._directory / "pid"), "--vrrp_pid", str(self._directory / "vrrp-pid")),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            process_group=0,
        )

    async def _follow_log(self, process: asyncio.subprocess.Process) -> None:
        while (line := await read_line(process.stdout)) is not None:
            self.last_lines.append(line)
            log.debug("keepalived: %s", line)
            if line.endswith(_RELOADED):
                self._on_reloaded()
            elif line.endswith(_STARTED):
                self._is_started = True
                self._request_reload()

    def _read(self, notifications: int) -> None:
        with contextlib.suppress(BlockingIOError):
            self._rest += os.read(notifications, _READ_BYTES).decode("utf-8", "replace")
        *lines, self._rest = self._rest.split("\n")
        for line in lines:
            found = parse_notification(line)
            if found is not None:
                self._on_state(*found)


def _kill_group(process: asyncio.subprocess.Process) -> None:
    """Kill the processes of a keepalived that are left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)

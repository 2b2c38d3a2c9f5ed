"""The ExaBGP process of a speaker: it has all sessions, and runs while there are any.

A process that is stopped, or hangs, would keep routes of this node at its peers until their hold time is over, and
requests would pile up. It is killed, which ends its connections, and the sessions begin anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections import deque

from bridgehead.balancer.child_process import end, read_line

from .exabgp import ENVIRONMENT
from .exabgp_messages import Answer, Request, parse_answer, render

log = logging.getLogger("bridgehead.balancer.bgp")

_LONGEST_LINE = 1 << 20  # bytes
_END_SECONDS = 3.0
_CLOSE_SECONDS = 5.0  # for the process to end one session
_LAST_LINES = 12  # of the log, for the report of an unexpected end
_PING_SECONDS = 3.0
_LOST_PINGS = 5  # after which the process counts as hung: it had 15 s of this process's own running time


class Channel:
    """The process's end of one session. Made by `ExaBgp.open`; `close` it in every case."""

    def __init__(self, peer: str, exabgp: ExaBgp) -> None:
        self._peer = peer
        self._exabgp = exabgp
        self._answers: asyncio.Queue[Answer | None] = asyncio.Queue()
        self._is_closed = False

    def request(self, request: Request) -> None:
        """Send a request. A process that has ended ignores it."""
        self._exabgp.send(request)

    async def answer(self) -> Answer | None:
        """Return the next answer; None when the process has ended. After "closed" there is none."""
        return await self._answers.get()

    def put(self, answer: Answer | None) -> None:
        """Take an answer of the process. None: it has ended."""
        self._is_closed |= answer is None or answer.kind == "closed"
        self._answers.put_nowait(answer)

    def abandon(self, reason: str) -> None:
        """Let `answer` return "closed" with this reason, without waiting for the process."""
        self._answers.put_nowait(Answer("closed", self._peer, reason=reason))

    async def close(self) -> None:
        """End the session, after the peer has been sent all that was requested."""
        if not self._is_closed:
            self.request(Request("close", self._peer))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    while not self._is_closed:
                        await self._answers.get()
        await self._exabgp.forget(self._peer)


class ExaBgp:
    """The process and its sessions, by the peers' names. `ping_seconds`: between looks whether it answers."""

    def __init__(self, ping_seconds: float = _PING_SECONDS) -> None:
        self._ping_seconds = ping_seconds
        self._has_answered = False  # since the last ping
        self._process: asyncio.subprocess.Process | None = None
        self._channels: dict[str, Channel] = {}
        self._lock = asyncio.Lock()  # one start or end at a time
        self._tasks: tuple[asyncio.Task[None], ...] = ()  # that follow the process
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)

    @property
    def last_line(self) -> str:
        """The last line of the process's log, or ""."""
        return self._last_lines[-1] if self._last_lines else ""

    async def open(self, request: Request) -> Channel:
        """Begin the session that a request of the kind "open" asks for. Raises OSError if ExaBGP cannot be started."""
        async with self._lock:
            if self._process is None:
                await self._start()
            channel = self._channels[request.peer] = Channel(request.peer, self)
        self.send(request)
        return channel

    def send(self, request: Request) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(render(request))

    async def forget(self, peer: str) -> None:
        """End the process if this was the last session."""
        async with self._lock:
            self._channels.pop(peer, None)
            if not self._channels:
                await self._stop()

    async def _start(self) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bridgehead.balancer.bgp.exabgp_main", str(os.getpid()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LONGEST_LINE,
            env=os.environ | ENVIRONMENT,
        )  # fmt: skip
        self._process = process
        self._last_lines.clear()
        self._tasks = (
            asyncio.create_task(self._read_answers(process)),
            asyncio.create_task(self._read_log(process)),
            asyncio.create_task(self._watch(process)),
        )

    async def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await end(process, _END_SECONDS)
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    async def _read_answers(self, process: asyncio.subprocess.Process) -> None:
        while (line := await read_line(process.stdout)) is not None:
            answer = parse_answer(line)
            self._has_answered = True
            channel = self._channels.get(answer.peer)
            if channel is not None:
                channel.put(answer)
        if self._process is process:
            await process.wait()
            log.warning("ExaBGP ended; its last lines:\n%s", "\n".join(self._last_lines))
            self._process = None
            for channel in self._channels.values():
                channel.put(None)

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        """Kill the process when it answers no more.

        The first answer may take as long as it likes: there are no sessions before.
        """
        has_started = False
        lost = 0  # pings, not seconds: this process may have been stopped itself
        while lost < _LOST_PINGS:
            self._has_answered = False
            self.send(Request("ping", ""))
            await asyncio.sleep(self._ping_seconds)
            if self._process is not process:
                return
            has_started |= self._has_answered
            lost = lost + 1 if has_started and not self._has_answered else 0
        log.error("ExaBGP is stopped or hangs; killing it, so that its sessions begin anew")
        with contextlib.suppress(ProcessLookupError):
            process.kill()

    async def _read_log(self, process: asyncio.subprocess.Process) -> None:
        while (line := await read_line(process.stderr)) is not None:
            self._last_lines.append(line)
            log.debug("ExaBGP: %s", line)

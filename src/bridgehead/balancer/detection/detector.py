"""The speaker's end of the detector: starts the process, sends it what it needs, and receives its conclusions.

While the detector is silent (stopped, or starved of processor time) nobody knows whether the other nodes have taken
this node's addresses over, so the speaker has to stop answering for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from bridgehead.balancer.errors import DetectorEnded
from bridgehead.balancer.process_lookup import is_stopped

from .detector_messages import BEAT_SECONDS, IDLE_BEAT_SECONDS
from .engine import Message
from .process import IDLE_SILENCE_SECONDS, SILENCE_SECONDS, start

Handler = Callable[[Message], None]
_STARVED_SECONDS = 1.0  # without a beat: the other nodes have believed this one dead for long
_IDLE_STARVED_SECONDS = 20 * IDLE_BEAT_SECONDS  # no address depends on it
_END_SECONDS = 2.0


class Detector:
    """The process. Construct it early, since the constructor forks, then `run` it in the speaker's event loop."""

    def __init__(self) -> None:
        self.pid, self._channel = start()
        self._unsent: deque[Message] = deque()  # while the detector does not read, in order
        self._handlers: dict[str, Handler] = {}
        self._on_silence: Callable[[bool], None] = lambda is_silent: None
        self._last_beat = 0.0
        self._wake = asyncio.Event()  # the pace of beats has changed, or the detector has ended
        self.is_silent = False

    def on_message(self, name: str, handler: Handler) -> None:
        """Call `handler` with each message of an engine."""
        self._handlers[name] = handler

    def on_silence(self, handler: Callable[[bool], None]) -> None:
        """Call `handler(True)` when the detector is stopped, and `handler(False)` when it runs again."""
        self._on_silence = handler

    def send(self, message: dict[str, Any]) -> None:
        """Send a message to the engine that its key "to" names, as soon as the detector reads."""
        self._unsent.append(message)
        self._send_waiting()

    def _send_waiting(self) -> None:
        while self._unsent and self._channel.send(self._unsent[0]):
            self._unsent.popleft()

    async def run(self) -> None:
        """Follow the detector until cancelled; then it ends. Raises DetectorEnded if it ends before."""
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        self._last_beat = time.monotonic()
        loop.add_reader(self._channel, self._read, ended)
        try:
            while not ended.done():
                planned = time.monotonic() + self._beat_seconds
                self._wake.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(loop.time() + self._beat_seconds):
                        await self._wake.wait()
                self._send_waiting()
                self._channel.beat()
                self._check(max(0.0, time.monotonic() - planned))
        finally:
            loop.remove_reader(self._channel)
            self.close()
        raise DetectorEnded("the failure detector has ended")

    @property
    def _beat_seconds(self) -> float:
        is_rare = self._channel.is_idle and not self._unsent and not self._channel.has_unsent
        return IDLE_BEAT_SECONDS if is_rare else BEAT_SECONDS

    def close(self) -> None:
        """End the detector, which announces that this speaker ends, and wait for it."""
        self._channel.close()
        with contextlib.suppress(ChildProcessError):
            deadline = time.monotonic() + _END_SECONDS
            while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                if time.monotonic() > deadline:  # it is stopped
                    os.kill(self.pid, 9)
                    os.waitpid(self.pid, 0)
                    return
                time.sleep(0.001)

    def _check(self, late: float) -> None:
        """Judge the detector's silence, without the time in which this process itself was late."""
        now = time.monotonic()
        self._last_beat += late
        silence = now - self._last_beat
        starved, long = _STARVED_SECONDS, SILENCE_SECONDS
        if self._channel.is_idle:
            starved, long = _IDLE_STARVED_SECONDS, IDLE_SILENCE_SECONDS
        is_silent = silence > starved or (silence > long and is_stopped(self.pid))
        if is_silent != self.is_silent:
            self.is_silent = is_silent
            self._on_silence(is_silent)

    def _read(self, ended: asyncio.Future[None]) -> None:
        was_idle = self._channel.is_idle
        try:
            for message in self._channel.receive():
                self._last_beat = time.monotonic()
                if message is not None:
                    handler = self._handlers.get(message["to"])
                    if handler is not None:
                        handler(message)
        except EOFError:
            if not ended.done():
                ended.set_result(None)
            self._wake.set()
        if self._channel.is_idle != was_idle:
            self._wake.set()

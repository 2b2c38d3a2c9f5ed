"""The detector's process: its start, its loop, and the observation clock.

The process is forked from the speaker before the speaker imports most of its code, and ends with it. The modules that
the detector needs are imported before the fork, so that the two processes share them.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bridgehead.balancer.process_lookup import is_stopped
from bridgehead.network.syscalls import set_process_name

from .bfd.engine import BfdEngine
from .detector_messages import BEAT_SECONDS, IDLE_BEAT_SECONDS, Channel, open_channel
from .engine import NEVER, Descriptor, Engine, Report
from .heartbeats import Heartbeats
from .keepalived_leftovers import Leftovers

# An iteration of the loop that begins later than planned by more than this was delayed by the machine.
_TOLERATED_SECONDS = 0.02
# The other side is looked at after this time without a beat: a stopped process does not run, a starved one still does.
SILENCE_SECONDS = 0.15
IDLE_SILENCE_SECONDS = 3 * IDLE_BEAT_SECONDS
_HUNG_SECONDS = 3.0
_IDLE_HUNG_SECONDS = 20 * IDLE_BEAT_SECONDS
_NICE = -15  # where the process may: it needs little of a processor, but soon
_READS_AT_ONCE = 8  # rounds over sockets with input before timers run

Process = tuple[int, Channel]  # the process id, and the speaker's end of the channel
_started: list[Process] = []  # by `starting_early`, and not used yet


@contextlib.contextmanager
def starting_early() -> Iterator[None]:
    """Fork the detector before the block, which imports what a detector does not need; `start` in the block returns it.

    A detector that nobody has used ends after the block.
    """
    _started.append(_fork())
    try:
        yield
    finally:
        while _started:
            pid, channel = _started.pop()
            channel.close()
            with contextlib.suppress(ChildProcessError):  # whoever started this program ignores SIGCHLD
                os.waitpid(pid, 0)


def start() -> Process:
    """Return a new detector."""
    return _started.pop() if _started else _fork()


def _fork() -> Process:
    ours, theirs = open_channel()
    gc.freeze()  # a collection would write to the objects that the two processes share, and so copy their memory
    pid = os.fork()
    if pid:
        theirs.close()
        return pid, ours
    ours.close()
    os._exit(_main(theirs))


def _main(channel: Channel) -> int:
    """Run in the child until the speaker ends. Return the exit status: the parent's cleanups are not the child's."""
    try:
        # The speaker, which ends on these signals, decides when the detector ends.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with contextlib.suppress(OSError):
            set_process_name("detector", "bridgehead speaker: failure detector")
        with contextlib.suppress(OSError):
            os.nice(_NICE)
        Loop(channel, _make_engines).run()
    except BaseException:  # noqa: BLE001 - nothing of the parent may run here
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
        return 1
    return 0


def _make_engines(report: Report) -> Sequence[Engine]:
    return (
        Heartbeats(report),
        BfdEngine(report),
        Leftovers(),
    )  # in this order at the end, too: other nodes learn of it first


class ObservationClock:
    """CLOCK_MONOTONIC without the time in which this process should have run but did not. Times in seconds."""

    def __init__(self, now: float) -> None:
        self._last = now
        self._skipped = 0.0

    def advance(self, now: float, planned: float) -> float:
        """Go on to `now`. `planned`: when the loop wanted to run at the latest, by this clock. Return what is left out.

        Time after `planned` does not count if it is more than `_TOLERATED_SECONDS`.
        """
        late = now - self._skipped - max(planned, self._last)
        self._last = now - self._skipped
        if late <= _TOLERATED_SECONDS:
            return 0.0
        self._skipped += late
        self._last -= late
        return late

    @property
    def now(self) -> float:
        return self._last

    def until(self, deadline: float, now: float) -> float:
        """Return the seconds from `now` (CLOCK_MONOTONIC) to a time of this clock."""
        return deadline - (now - self._skipped)


class Loop:
    """Runs the engines. `make_engines` gets the function that sends a message to the speaker."""

    def __init__(self, channel: Channel, make_engines: Callable[[Report], Sequence[Engine]]) -> None:
        self._channel = channel
        self._engines = {engine.name: engine for engine in make_engines(channel.send)}
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel, selectors.EVENT_READ)
        self._watched: dict[Descriptor, Engine] = {}
        self._clock = ObservationClock(time.monotonic())
        self._last_beat = self._clock.now
        self._next_beat = 0.0
        self._is_idle = True
        self._is_speaker_running = True
        self._speaker = os.getppid()
        self._last_look = 0.0

    def run(self) -> None:
        """Run until the speaker ends."""
        self._watch()
        try:
            while True:
                self._step()
        except EOFError:
            with contextlib.ExitStack() as ends:  # an engine that fails must not keep the others from cleaning up
                for engine in reversed(self._engines.values()):
                    ends.callback(engine.on_end, self._clock.now)

    def _step(self) -> None:
        self._set_idle()
        deadline = min(self._next_beat, self._silence_deadline(), *(e.next_deadline() for e in self._engines.values()))
        events = self._selector.select(max(0.0, self._clock.until(deadline, time.monotonic())))
        suspended = self._clock.advance(time.monotonic(), deadline)
        if suspended:
            for engine in self._engines.values():
                engine.on_suspension(suspended, self._clock.now)
        for _ in range(_READS_AT_ONCE):
            if not events:
                break
            for key, _events in events:
                self._read(key.fileobj)
            events = self._selector.select(0)
        self._run_timers()

    def _read(self, source: Any) -> None:
        now = self._clock.now
        if source is self._channel:
            for message in self._channel.receive():
                self._last_beat = now
                if message is not None:
                    self._engines[message["to"]].on_message(message, now)
                    self._watch()
            self._set_speaker_running(True)
            return
        engine = self._watched.get(source)
        if engine is not None:  # None: a message just before has closed it
            engine.on_input(source, now)

    def _run_timers(self) -> None:
        now = self._clock.now
        if now >= self._next_beat:
            self._set_idle()
            self._channel.beat(is_idle=self._is_idle)
            is_rare = self._is_idle and not self._channel.has_unsent
            self._next_beat = now + (IDLE_BEAT_SECONDS if is_rare else BEAT_SECONDS)
        if now >= self._silence_deadline():
            self._look_at_speaker(now)
        for engine in self._engines.values():
            if now >= engine.next_deadline():
                engine.on_timer(now)

    def _set_idle(self) -> None:
        """Learn whether an engine is active; the speaker learns of a change by a beat at once."""
        is_idle = not any(engine.is_active for engine in self._engines.values())
        if is_idle != self._is_idle:
            self._is_idle = is_idle
            self._next_beat = self._last_beat = self._clock.now

    def _silence_deadline(self) -> float:
        if not self._is_speaker_running:
            return NEVER
        silence = IDLE_SILENCE_SECONDS if self._is_idle else SILENCE_SECONDS
        return max(self._last_beat + silence, self._last_look + BEAT_SECONDS)

    def _look_at_speaker(self, now: float) -> None:
        self._last_look = now
        hung = _IDLE_HUNG_SECONDS if self._is_idle else _HUNG_SECONDS
        if now - self._last_beat >= hung or is_stopped(self._speaker):
            self._set_speaker_running(False)

    def _set_speaker_running(self, is_running: bool) -> None:
        if is_running != self._is_speaker_running:
            self._is_speaker_running = is_running
            for engine in self._engines.values():
                engine.on_speaker(is_running, self._clock.now)

    def _watch(self) -> None:
        """Watch exactly the engines' descriptors."""
        wanted: dict[Descriptor, Engine] = {
            descriptor: engine for engine in self._engines.values() for descriptor in engine.descriptors()
        }
        for descriptor in self._watched.keys() - wanted.keys():
            self._selector.unregister(descriptor)
        for descriptor in wanted.keys() - self._watched.keys():
            self._selector.register(descriptor, selectors.EVENT_READ)
        self._watched = wanted

"""Interface of the protocols that run in the detector's process.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

Message = dict[str, Any]  # fit for JSON; the key "to" names the engine or, from the process, the speaker's handler
Report = Callable[[Message], bool]  # sends a message to the speaker; False: dropped

NEVER = float("inf")


class Descriptor(Protocol):
    """A socket or another object with a file descriptor."""

    def fileno(self) -> int: ...


class Engine(Protocol):
    """One protocol. The loop calls it from one thread; no method may block.

    All times are seconds of the loop's observation clock: CLOCK_MONOTONIC without the time in which the process itself
    did not run although it should have (it was stopped, or the processors were busy). A timer that compares these times
    never blames a neighbour for the observer's own delay. The loop reads all sockets before it calls `on_timer`.
    """

    name: str  # the key "to" of messages for this engine

    @property
    def is_active(self) -> bool:
        """Whether others rely on this node now, so that a speaker that does not run has to be noticed soon."""

    def descriptors(self) -> Collection[Descriptor]:
        """Return what to watch for input. The loop asks again after `on_message`."""

    def next_deadline(self) -> float:
        """Return the time of the next `on_timer`, `NEVER` without one."""

    def on_timer(self, now: float) -> None:
        """Act on the time. The deadline may be a little later than `now`, or long past."""

    def on_input(self, descriptor: Descriptor, now: float) -> None:
        """Read what a descriptor has, until it would block or for a bounded number of packets."""

    def on_message(self, message: Message, now: float) -> None:
        """Act on a message of the speaker."""

    def on_suspension(self, seconds: float, now: float) -> None:
        """Act on a pause of the process of `seconds`, which the observation clock left out, before input is read."""

    def on_speaker(self, is_running: bool, now: float) -> None:
        """Act on the speaker's state: a stopped one (SIGSTOP) can neither announce nor forward anything new."""

    def on_end(self, now: float) -> None:
        """Send what the neighbours should know before the process ends, and close the sockets.

        The speaker has ended, by a signal or on its own.
        """

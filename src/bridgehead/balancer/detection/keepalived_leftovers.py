"""The engine that removes what the keepalived of a killed speaker has left: its processes, addresses and files.

keepalived removes its addresses itself when it is ended by SIGTERM, which it gets with the speaker's end. It cannot if
it is stopped, or if the signal comes while it starts or takes addresses over. No other speaker may come that would
remove them.

Messages from the speaker, before keepalived can have these addresses, and when it has ended (no directory):

    {"to": "leftovers", "directory": "/tmp/bridgehead-speaker-x", "addresses": [[2, "10.0.0.12"]]}

`addresses`: indices of links, addresses. Addresses of earlier messages count, too, until keepalived has ended: it takes
a moment to read its configuration. This process works in the directory meanwhile, so that the next speaker of the node,
which sweeps the directory (`workspace.py`), ends it first: only one of them removes addresses.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection, Iterable
from typing import Final

from bridgehead.balancer.process_lookup import is_stopped, users_of
from bridgehead.network.interface_addresses import Address, Addresses

from .engine import NEVER, Descriptor, Message

NAME: Final = "leftovers"
_GRACE_SECONDS: Final = 1.0  # for keepalived to resign and to remove its addresses
_KILL_SECONDS: Final = 1.0  # for killed processes to be gone
_LOOK_SECONDS: Final = 0.01


def request_removal(directory: str, addresses: Iterable[tuple[int, str]]) -> Message:
    """Return the message about a keepalived that begins to have addresses (indices of links, addresses)."""
    return {"to": NAME, "directory": directory, "addresses": [list(entry) for entry in addresses]}


class Leftovers:
    """The engine."""

    name = NAME

    def __init__(self) -> None:
        self._directory = ""
        self._addresses: set[Address] = set()

    @property
    def is_active(self) -> bool:
        return False  # only the speaker's end matters, which needs no beats

    def descriptors(self) -> Collection[Descriptor]:
        return ()

    def next_deadline(self) -> float:
        return NEVER

    def on_timer(self, now: float) -> None:
        """Do nothing: there is no timer."""

    def on_input(self, descriptor: Descriptor, now: float) -> None:
        """Do nothing: there is no descriptor."""

    def on_suspension(self, seconds: float, now: float) -> None:
        """Do nothing: nothing depends on time."""

    def on_speaker(self, is_running: bool, now: float) -> None:
        """Do nothing: keepalived goes on while the speaker is stopped."""

    def on_message(self, message: Message, now: float) -> None:
        self._directory = message["directory"]
        if not self._directory:
            self._addresses.clear()
        self._addresses.update(Address(address, link) for link, address in message["addresses"])
        with contextlib.suppress(OSError):  # somebody has removed it
            os.chdir(self._directory or "/")

    def on_end(self, now: float) -> None:
        """Remove everything, within two seconds at most; the other engines have ended before."""
        if not self._directory:
            return
        self._signal(signal.SIGTERM)
        self._wait(_GRACE_SECONDS)
        self._signal(signal.SIGKILL)
        self._wait(_KILL_SECONDS)
        # A link may have gone, with its addresses.
        for link in {entry.link for entry in self._addresses}:
            with contextlib.suppress(OSError), contextlib.closing(Addresses()) as addresses:
                addresses.remove([entry for entry in self._addresses if entry.link == link])
        import shutil  # the process is small while it runs

        shutil.rmtree(self._directory, ignore_errors=True)

    def _wait(self, seconds: float) -> None:
        """Wait until no process is left that can end, at most for some seconds."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not all(is_stopped(pid) for pid in users_of(self._directory)):
            time.sleep(_LOOK_SECONDS)

    def _signal(self, number: int) -> None:
        for pid in users_of(self._directory):
            with contextlib.suppress(OSError):
                os.kill(pid, number)

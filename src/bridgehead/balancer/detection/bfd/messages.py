"""Messages about BFD sessions between the speaker and the engine in the detector's process, as JSON has them.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from bridgehead.balancer.detection.engine import Message

from .packets import Diagnostic, State
from .session import Timing

ENGINE_NAME = "bfd"


class Neighbor(NamedTuple):
    """A router at the far end. `local`: this end's address, or "": the kernel's choice."""

    remote: str
    local: str = ""
    is_multi_hop: bool = False


class SessionSettings(NamedTuple):
    """Parameters of a session. `minimum_ttl`: the lowest TTL of received packets, over several hops only."""

    timing: Timing = Timing()
    minimum_ttl: int = 254


class Change(NamedTuple):
    """The state of a session, which has just changed.

    `is_ended_by_remote`: its operator ended the session, so the path may be good (RFC 5882, section 3.2). `error`: why
    the session cannot work on this node, or "".
    """

    neighbor: Neighbor
    state: State = State.DOWN
    diagnostic: int = Diagnostic.NONE
    is_ended_by_remote: bool = False
    error: str = ""


def request_sessions(wanted: Mapping[Neighbor, SessionSettings]) -> Message:
    """Return the message that asks the engine for exactly these sessions."""
    sessions = [[list(neighbor), list(settings.timing), settings.minimum_ttl] for neighbor, settings in wanted.items()]
    return {"to": ENGINE_NAME, "sessions": sessions}


def read_request(message: Message) -> dict[Neighbor, SessionSettings]:
    """Return what `request_sessions` was called with."""
    sessions: Iterable[tuple[list[Any], list[Any], int]] = message["sessions"]
    return {
        Neighbor(*neighbor): SessionSettings(Timing(*timing), minimum_ttl) for neighbor, timing, minimum_ttl in sessions
    }


def report_change(change: Change) -> Message:
    """Return the message that reports a change to the speaker."""
    return {"to": ENGINE_NAME, "change": [list(change.neighbor), *change[1:]]}


def read_change(message: Message) -> Change:
    """Return what `report_change` was called with."""
    neighbor, state, *rest = message["change"]
    return Change(Neighbor(*neighbor), State(state), *rest)

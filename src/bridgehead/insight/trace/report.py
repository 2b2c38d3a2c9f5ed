"""The result of a trace. `-o json` prints it: fields are added to it, but not renamed or removed.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import enum

import msgspec


class State(enum.StrEnum):
    """The state of a step. UNKNOWN: it could not be looked at."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the connection's way. `text`: one sentence. `evidence`: what it was concluded from, a line each."""

    name: str
    text: str
    state: State = State.OK
    evidence: tuple[str, ...] = ()


class PossibleBackend(msgspec.Struct, frozen=True, kw_only=True):
    """A backend that the connection may get. `chance`: from 0 to 1. `pod`: `namespace/name`, "" if no pod has the
    address. `client`: the address that it sees as its client's.
    """

    address: str  # with the port
    chance: float
    client: str
    pod: str = ""
    node: str = ""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The connection that was made. `outcome`: one of `probing.Outcome`. `backend` and `client`: "" if unknown."""

    outcome: str
    source: str
    milliseconds: float
    backend: str = ""
    pod: str = ""
    client: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """`works`: None if no connection was made, and nothing speaks against it. `verdict`: one sentence.

    `differences`: between the state that the API's objects ask for and what the kernel did. `destination`: the address
    and port that the origin connects to; "" if the name has none. `unseen`: parts that could not be looked at, and why.
    """

    verdict: str
    works: bool | None
    origin: str
    target: str
    protocol: str
    destination: str = ""
    differences: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    backends: tuple[PossibleBackend, ...] = ()
    seen: Seen | None = None
    unseen: tuple[str, ...] = ()
    format: str = "bridgehead trace 1"

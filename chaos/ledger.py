"""Acknowledged writes, and which of them are lost at the end.

Pure: no I/O, no clock, no randomness.

An object's state is a text that its writer makes up, new for each write; None is its absence. A write without an answer
may have happened, or happen later: it is possible until a later write that could not have succeeded after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto


class Answer(Enum):
    """Answer of the API server to a write. UNKNOWN: none came, or one that leaves open what happened."""

    ACKNOWLEDGED = auto()
    REFUSED = auto()
    UNKNOWN = auto()


@dataclass(frozen=True)
class Stored:
    """An object as the API has it."""

    uid: str
    state: str


@dataclass
class _History:
    uid: str = ""
    acknowledged: str | None = None
    # States of writes without an answer since then; guarded by resourceVersion or uid unless it was a create.
    possible: set[str | None] = field(default_factory=set)
    creates: set[str] = field(default_factory=set)


class Ledger:
    """The answers to all writes, by the objects' names. A name is not used again after its object's deletion."""

    def __init__(self) -> None:
        self._histories: dict[str, _History] = {}
        self.acknowledged = 0

    def record(self, name: str, state: str | None, answer: Answer, uid: str = "") -> None:
        """Record one write: the state it asked for, and with ACKNOWLEDGED the uid that the API answered with."""
        history = self._histories.setdefault(name, _History())
        if answer is Answer.ACKNOWLEDGED:
            self.acknowledged += 1
            history.acknowledged, history.uid = state, uid
            history.possible.clear()
        elif answer is Answer.UNKNOWN:
            history.possible.add(state)
            if state is not None and not history.uid:
                history.creates.add(state)

    def find_lost(self, found: Mapping[str, Stored]) -> list[str]:
        """Return lost or changed writes, one line each; `found` are the objects at the end, by name."""
        lost = []
        for name, history in self._histories.items():
            allowed = {history.acknowledged, *history.possible}
            if history.acknowledged is None:
                allowed |= history.creates  # without a guard, such a request may even arrive after the deletion
            stored = found.get(name)
            state = stored.state if stored else None
            if state not in allowed:
                lost.append(f"{name}: is {state!r}, acknowledged was {history.acknowledged!r}")
            elif stored and history.uid and history.acknowledged is not None and stored.uid != history.uid:
                lost.append(f"{name}: has uid {stored.uid}, acknowledged was {history.uid}")
        unheard = found.keys() - self._histories.keys()
        return lost + [f"{name}: nobody wrote it" for name in sorted(unheard)]

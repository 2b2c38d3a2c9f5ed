"""All that the clients and watchers of a run saw, and how long clients were without an answer.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from chaos.linearizability import Operation

from .models import Outcome, Verb
from .watches import Acknowledged, Event


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault from `start` to `end`, in seconds of the clients' clock."""

    description: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class ServiceWrite:
    """The create or delete of a Service. `refused` is the claim that another Service had.

    `returned` is UNKNOWN and `outcome` None without an answer.
    """

    client: int
    called: float
    returned: float
    verb: Verb
    name: str
    outcome: Outcome | None
    refused: str = ""


@dataclass(slots=True)
class Recording:
    """Observations of clients. `answers` are the times of the answers that each client got to its requests."""

    registers: list[Operation] = field(default_factory=list)
    services: list[ServiceWrite] = field(default_factory=list)
    acknowledged: list[Acknowledged] = field(default_factory=list)
    answers: dict[int, list[float]] = field(default_factory=dict)
    unexpected: list[str] = field(default_factory=list)
    read: int = 0  # answers to reads of one object
    over_quota: int = 0  # creates that the quota refused
    written: int = 0  # acknowledged writes, of all kinds
    unknown: int = 0  # writes without an answer, or with one that leaves the outcome open


def claim_operations(writes: Iterable[ServiceWrite], services: Iterable[Event]) -> Sequence[Operation]:
    """Return the operations on claims. The claims of a Service are the state that watchers saw.

    A Service that no watcher saw was never created, or its loss is found elsewhere.
    """
    seen = {event.name: event.state.split() for event in services if event.type == "ADDED"}
    return [
        Operation(claim, one.client, one.called, one.returned, one.verb, value=one.name, answer=one.outcome)
        for one in writes
        for claim in ([one.refused] if one.refused else seen.get(one.name, ()))
    ]


def longest_outage(recording: Recording, start: float, end: float) -> float:
    """Return the longest time that any client was without an answer, if part of it was between `start` and `end`."""
    longest = 0.0
    for times in recording.answers.values():
        for before, after in pairwise(times):
            if before < end and after > start:
                longest = max(longest, after - before)
    return longest

"""Whether a history of concurrent operations is linearizable: whether each could have happened at one moment between
its call and its return.

A history is checked for each key alone, because a system is linearizable if and only if each of its objects is. The
search tries the pending operations in turn and goes back when none fits; what it has tried is remembered as a pair of
the operations so far and the state they lead to.

Pure: no I/O, no clock, no randomness.
Source: Wing and Gong, "Testing and Verifying Concurrent Objects"; Lowe, "Testing for Linearizability"; the same
algorithm is that of porcupine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

S = TypeVar("S", bound=Hashable)

UNKNOWN = math.inf


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on one key. `called` and `returned` are times on one clock; `returned` is UNKNOWN for one without
    an answer, which may have happened at any time after its call, or never.

    `verb`, `value` and `expected` are what was asked; `answer` is what the client got, None without an answer.
    """

    key: str
    client: int
    called: float
    returned: float
    verb: str
    value: Hashable = None
    expected: Hashable = None
    answer: Hashable = None


# Returns the state after an operation, or `IMPOSSIBLE` if its answer cannot come from the state before.
Step = Callable[[S, Operation], S]


class _Impossible:
    """See `IMPOSSIBLE`."""


IMPOSSIBLE = _Impossible()


@dataclass(slots=True, eq=False)
class _Event:
    """A call or the return of an operation, in the list of those that are still to be explained."""

    number: int
    operation: Operation
    ret: _Event | None  # of a call: its return
    before: _Event | None = None
    after: _Event | None = None


def violations(
    history: Iterable[Operation], initial: S, step: Callable[[S, Operation], S | _Impossible]
) -> Mapping[str, Sequence[Operation]]:
    """Return the keys whose operations no order explains, with these operations in the order of their calls."""
    by_key: dict[str, list[Operation]] = {}
    for operation in history:
        by_key.setdefault(operation.key, []).append(operation)
    return {
        key: sorted(operations, key=lambda one: one.called)
        for key, operations in by_key.items()
        if not is_linearizable(operations, initial, step)
    }


def is_linearizable(
    operations: Sequence[Operation], initial: S, step: Callable[[S, Operation], S | _Impossible]
) -> bool:
    """Whether some order of the operations of one key explains all answers."""
    first = _linked(operations)
    answered = sum(1 << number for number, one in enumerate(operations) if one.returned < UNKNOWN)
    state, done = initial, 0
    tried: set[tuple[int, Hashable]] = set()
    path: list[tuple[_Event, S]] = []
    event = first.after
    while done & answered != answered:
        if event is not None and event.ret is not None:  # a call
            after = step(state, event.operation)
            candidate = done | 1 << event.number
            if not isinstance(after, _Impossible) and (candidate, after) not in tried:
                tried.add((candidate, after))
                path.append((event, state))
                state, done = after, candidate
                _take_out(event)
                event = first.after
            else:
                event = event.after
            continue
        # A return whose operation has not been explained, or the end of the list: the last choice was wrong.
        if not path:
            return False
        event, state = path.pop()
        done &= ~(1 << event.number)
        _put_back(event)
        event = event.after
    return True


def _linked(operations: Sequence[Operation]) -> _Event:
    """Return the head of a list of all calls and returns in the order of their times; at one time, calls come first."""
    events: list[tuple[float, int, _Event]] = []
    for number, operation in enumerate(operations):
        ret = _Event(number, operation, None)
        events.append((operation.called, 0, _Event(number, operation, ret)))
        events.append((operation.returned, 1, ret))
    events.sort(key=lambda one: one[:2])
    head = last = _Event(-1, Operation("", 0, 0, 0, ""), None)
    for _, _, event in events:
        last.after, event.before = event, last
        last = event
    return head


def _take_out(call: _Event) -> None:
    for event in (call, call.ret):
        if event is not None:
            if event.before is not None:
                event.before.after = event.after
            if event.after is not None:
                event.after.before = event.before


def _put_back(call: _Event) -> None:
    """Undo `_take_out`, whose events still know their neighbours. In the opposite order."""
    for event in (call.ret, call):
        if event is not None:
            if event.before is not None:
                event.before.after = event
            if event.after is not None:
                event.after.before = event

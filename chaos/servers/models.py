"""Models of what one key of the API may do, for `chaos.linearizability`: a register, and a claim.

A register is an object of one name. Its state is the text of the write that made it, new for each write; None: there is
no object. A claim is an address or a node port. Its state is the name of the Service that has it.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import StrEnum
from typing import Any

from chaos.linearizability import IMPOSSIBLE, Operation


class Verb(StrEnum):
    """An operation. A claim has only CREATE and DELETE, of the Service that takes it."""

    CREATE = "create"
    READ = "read"
    UPDATE = "update"
    DELETE = "delete"


class Outcome(StrEnum):
    """Answer to a write. A write without an answer has None."""

    DONE = "done"
    EXISTS = "exists"
    CONFLICT = "conflict"
    MISSING = "missing"
    TAKEN = "taken"


def register(state: Hashable, operation: Operation) -> Any:
    """Return the state after an operation. An update replaces the state `expected`, which it names by its version."""
    answer, value = operation.answer, operation.value
    match operation.verb:
        case Verb.READ:
            return state if answer == state else IMPOSSIBLE
        case Verb.CREATE:
            if state is None:
                return IMPOSSIBLE if answer is Outcome.EXISTS else value
            return state if answer is Outcome.EXISTS else IMPOSSIBLE
        case Verb.UPDATE:
            if state is None:
                return state if answer is Outcome.MISSING else IMPOSSIBLE
            if state != operation.expected:
                return state if answer is Outcome.CONFLICT else IMPOSSIBLE
            return value if answer in (None, Outcome.DONE) else IMPOSSIBLE
        case Verb.DELETE:
            if state is None:
                return state if answer is Outcome.MISSING else IMPOSSIBLE
            return IMPOSSIBLE if answer is Outcome.MISSING else None
    raise ValueError(f"a register has no operation {operation.verb}")


def claim(holder: Hashable, operation: Operation) -> Any:
    """Return the holder after the Service `operation.value` was created with the claim, or deleted."""
    answer, service = operation.answer, operation.value
    match operation.verb:
        case Verb.CREATE:
            if holder is None:
                return IMPOSSIBLE if answer is Outcome.TAKEN else service
            return holder if answer is Outcome.TAKEN else IMPOSSIBLE
        case Verb.DELETE:
            if holder == service:
                return IMPOSSIBLE if answer is Outcome.MISSING else None
            return holder if answer is Outcome.MISSING else IMPOSSIBLE
    raise ValueError(f"a claim has no operation {operation.verb}")

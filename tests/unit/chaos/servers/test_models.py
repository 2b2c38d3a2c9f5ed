"""Histories of an object and of a claim that the API may show or not."""

from __future__ import annotations

import pytest
from chaos.linearizability import UNKNOWN, Operation, is_linearizable
from chaos.servers.models import Outcome, Verb, claim, register

DONE, EXISTS, CONFLICT, MISSING, TAKEN = Outcome


def create(called: float, returned: float, value: str, answer: Outcome | None = DONE) -> Operation:
    return Operation("x", 0, called, returned, Verb.CREATE, value=value, answer=answer)


def read(called: float, returned: float, answer: str | None) -> Operation:
    return Operation("x", 0, called, returned, Verb.READ, answer=answer)


def update(called: float, returned: float, old: str, new: str, answer: Outcome | None = DONE) -> Operation:
    return Operation("x", 0, called, returned, Verb.UPDATE, value=new, expected=old, answer=answer)


def delete(called: float, returned: float, answer: Outcome | None = DONE, value: str | None = None) -> Operation:
    return Operation("x", 0, called, returned, Verb.DELETE, value=value, answer=answer)


@pytest.mark.parametrize(
    ("history", "is_possible"),
    [
        ([create(0, 1, "a"), read(2, 3, "a"), update(4, 5, "a", "b"), read(6, 7, "b"), delete(8, 9)], True),
        ([create(0, 1, "a"), read(2, 3, None)], False),
        ([create(0, 1, "a"), create(2, 3, "b")], False),
        ([create(0, 1, "a"), create(2, 3, "b", EXISTS)], True),
        ([create(0, 1, "a", EXISTS)], False),
        ([create(0, 9, "a"), create(1, 2, "b", EXISTS)], True),
        ([create(0, 1, "a"), update(2, 9, "a", "b"), update(3, 8, "a", "c")], False),
        ([create(0, 1, "a"), update(2, 9, "a", "b"), update(3, 8, "a", "c", CONFLICT)], True),
        ([create(0, 1, "a"), update(2, 3, "a", "b", CONFLICT)], False),
        ([create(0, 1, "a"), update(2, 3, "a", "b", MISSING)], False),
        ([update(2, 3, "a", "b", MISSING)], True),
        ([update(2, 3, "a", "b")], False),
        ([create(0, 1, "a"), update(2, UNKNOWN, "a", "b", None), read(3, 4, "a"), read(5, 6, "b")], True),
        ([create(0, 1, "a"), update(2, UNKNOWN, "a", "b", None), update(3, 4, "a", "c"), read(5, 6, "b")], False),
        ([create(0, 1, "a"), delete(2, 3), delete(4, 5)], False),
        ([create(0, 1, "a"), delete(2, UNKNOWN, None), delete(4, 5, MISSING)], True),
        ([delete(0, 1, MISSING)], True),
        ([create(0, 1, "a"), delete(2, 3, MISSING)], False),
    ],
)
def test_registers(history: list[Operation], is_possible: bool) -> None:
    assert is_linearizable(history, None, register) is is_possible


@pytest.mark.parametrize(
    ("history", "is_possible"),
    [
        ([create(0, 1, "a"), delete(2, 3, value="a"), create(4, 5, "b")], True),
        ([create(0, 1, "a"), create(2, 3, "b")], False),  # given twice
        ([create(0, 1, "a"), create(2, 3, "b", TAKEN)], True),
        ([create(0, 1, "a", TAKEN)], False),  # refused although it is free
        ([create(0, UNKNOWN, "a", None), create(2, 3, "b", TAKEN)], True),
        ([create(0, UNKNOWN, "a", None), create(2, 3, "b"), create(4, 5, "c", TAKEN)], True),
        ([create(0, 1, "a"), delete(2, 3, MISSING, "a")], False),
        ([create(0, 1, "a"), delete(2, 3, MISSING, "b")], True),
        ([delete(2, 3, value="a")], False),
    ],
)
def test_claims(history: list[Operation], is_possible: bool) -> None:
    assert is_linearizable(history, None, claim) is is_possible


@pytest.mark.parametrize("model", [register, claim])
def test_an_unknown_operation_is_an_error(model) -> None:
    with pytest.raises(ValueError, match="no operation"):
        model(None, Operation("x", 0, 0, 1, "patch"))

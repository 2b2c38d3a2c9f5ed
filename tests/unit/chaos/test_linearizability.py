"""Histories of one register, and of claims, whose answers are possible or not."""

from __future__ import annotations

from collections.abc import Hashable
from random import Random

import pytest
from chaos.linearizability import IMPOSSIBLE, UNKNOWN, Operation, is_linearizable, violations
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples


def register(state: Hashable, operation: Operation) -> Hashable:
    """A value that is read, written, and exchanged if it is the expected one."""
    if operation.verb == "read":
        return state if operation.answer == state else IMPOSSIBLE
    if operation.verb == "write":
        return operation.value
    if operation.answer is None:  # nobody knows whether the exchange took place
        return operation.value if state == operation.expected else IMPOSSIBLE
    has_changed = state == operation.expected
    if has_changed is not operation.answer:
        return IMPOSSIBLE
    return operation.value if has_changed else state


def write(called: float, returned: float, value: int) -> Operation:
    return Operation("x", 0, called, returned, "write", value=value, answer=None if returned == UNKNOWN else "ok")


def read(called: float, returned: float, value: int | None) -> Operation:
    return Operation("x", 1, called, returned, "read", answer=value)


def exchange(called: float, returned: float, expected: int | None, value: int, answer: bool | None) -> Operation:
    return Operation("x", 2, called, returned, "exchange", value=value, expected=expected, answer=answer)


@pytest.mark.parametrize(
    ("history", "is_possible"),
    [
        ([], True),
        ([write(0, 1, 1), read(2, 3, 1)], True),
        ([write(0, 1, 1), read(2, 3, None)], False),  # a lost write
        ([write(0, 3, 1), read(1, 2, None)], True),  # not written yet
        ([write(0, 3, 1), read(1, 2, 1)], True),  # already written
        ([write(0, 9, 1), read(1, 2, 1), read(3, 4, None)], False),  # back to an older state
        ([write(0, 1, 1), write(2, 3, 2), read(4, 5, 1)], False),  # a stale read
        ([write(0, 1, 1), write(2, UNKNOWN, 2), read(3, 4, 1), read(5, 6, 2)], True),  # it happened late
        ([write(0, 1, 1), write(2, UNKNOWN, 2), read(3, 4, 1), read(5, 6, 1)], True),  # or never
        ([write(0, 1, 1), write(2, UNKNOWN, 2), read(3, 4, 2), read(5, 6, 1)], False),
        ([exchange(0, 2, None, 1, True), exchange(1, 3, None, 2, True)], False),  # both cannot have won
        ([exchange(0, 2, None, 1, True), exchange(1, 3, None, 2, False)], True),
        ([exchange(0, 2, None, 1, False), exchange(1, 3, None, 2, True)], True),
        ([exchange(0, UNKNOWN, None, 1, None), exchange(1, 3, None, 2, False), read(4, 5, 1)], True),
    ],
)
def test_a_register(history: list[Operation], is_possible: bool) -> None:
    assert is_linearizable(history, None, register) is is_possible


def test_keys_are_checked_alone() -> None:
    good = [write(0, 1, 1), read(2, 3, 1)]
    bad = [Operation("y", 0, 0, 1, "read", answer=7)]
    assert violations([*good, *bad], None, register) == {"y": bad}


@given(st.randoms(use_true_random=False), st.integers(1, 12))
@examples(60)
def test_every_history_of_a_real_register_is_linearizable(random: Random, count: int) -> None:
    """Operations take effect at one moment between call and return; those without an answer perhaps."""
    moments = sorted(random.uniform(0, 10) for _ in range(count))
    state: int | None = None
    history: list[Operation] = []
    for number, moment in enumerate(moments):
        called, returned = moment - random.uniform(0, 3), moment + random.uniform(0, 3)
        verb = random.choice(["read", "write", "exchange"])
        if verb == "read":
            history.append(read(called, returned, state))
        elif verb == "write":
            history.append(write(called, random.choice([returned, UNKNOWN]), number))
            state = number
        else:
            expected = random.choice([state, -1])
            history.append(exchange(called, returned, expected, number, state == expected))
            state = number if state == expected else state
    assert is_linearizable(history, None, register)
    stale = [*history, read(20, 21, -5)]
    assert not is_linearizable(stale, None, register)

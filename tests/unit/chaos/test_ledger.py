"""The oracle of writes: what was acknowledged has to be there."""

from __future__ import annotations

import pytest
from chaos.ledger import Answer, Ledger, Stored

OK, NO, OPEN = Answer.ACKNOWLEDGED, Answer.REFUSED, Answer.UNKNOWN

Writes = list[tuple[str | None, Answer]]


@pytest.mark.parametrize(
    ("writes", "allowed", "forbidden"),
    [
        # A write that was acknowledged is there, and none before it.
        ([("a", OK)], ["a"], [None, "b"]),
        ([("a", OK), ("b", OK)], ["b"], ["a", None]),
        ([("a", OK), (None, OK)], [None], ["a"]),
        # A write that was refused did not happen.
        ([("a", NO)], [None], ["a"]),
        ([("a", OK), ("b", NO)], ["a"], ["b", None]),
        # A write without an answer may have happened, or not.
        ([("a", OPEN)], ["a", None], ["b"]),
        ([("a", OK), ("b", OPEN)], ["a", "b"], [None]),
        ([("a", OK), (None, OPEN)], ["a", None], ["b"]),
        ([("a", OK), ("b", OPEN), ("c", OPEN)], ["a", "b", "c"], [None]),
        # A later write that succeeds shows what became of it.
        ([("a", OK), ("b", OPEN), ("c", OK)], ["c"], ["a", "b", None]),
        ([("a", OPEN), ("b", OK)], ["b"], ["a", None]),
        # A create may be so late that it comes after a deletion.
        ([("a", OPEN), ("b", OK), (None, OK)], [None, "a"], ["b"]),
        ([("a", OK), ("b", OPEN), (None, OK)], [None], ["a", "b"]),
    ],
)
def test_acknowledged_writes_are_present_unless_superseded(
    writes: Writes, allowed: list[str | None], forbidden: list[str | None]
) -> None:
    ledger = Ledger()
    for state, answer in writes:
        ledger.record("x", state, answer, "u1" if answer is OK and state else "")

    def lost(state: str | None) -> list[str]:
        return ledger.find_lost({"x": Stored("u1", state)} if state else {})

    assert all(not lost(state) for state in allowed)
    assert all(lost(state) for state in forbidden)
    assert ledger.acknowledged == sum(answer is OK for _, answer in writes)


def test_a_lost_write_is_named() -> None:
    ledger = Ledger()
    ledger.record("configmaps/x", "x-1", OK, "u1")
    assert ledger.find_lost({}) == ["configmaps/x: is None, acknowledged was 'x-1'"]


def test_an_object_with_another_uid_is_not_the_acknowledged_one() -> None:
    ledger = Ledger()
    ledger.record("x", "a", OK, "u1")
    assert ledger.find_lost({"x": Stored("u2", "a")}) == ["x: has uid u2, acknowledged was u1"]


def test_unknown_objects_are_found() -> None:
    assert Ledger().find_lost({"x": Stored("u1", "a")}) == ["x: nobody wrote it"]

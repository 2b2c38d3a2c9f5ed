"""Answers of API servers: which of them leave open whether a write was done."""

from __future__ import annotations

from typing import Any

import pytest
from chaos.servers.answers import Answer, revision_of, state_of
from chaos.servers.models import Outcome

TAKEN = {
    "reason": "Invalid",
    "message": "Service is invalid: provided port is already allocated",
    "details": {"causes": [{"field": "spec.ports[0].nodePort"}]},
}


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (201, {}, Outcome.DONE),
        (404, {"reason": "NotFound"}, Outcome.MISSING),
        (409, {"reason": "AlreadyExists"}, Outcome.EXISTS),
        (409, {"reason": "Conflict"}, Outcome.CONFLICT),
        (422, TAKEN, Outcome.TAKEN),
        (500, {}, None),
        (504, {}, None),
    ],
)
def test_outcomes(status: int, body: dict[str, Any], outcome: Outcome | None) -> None:
    answer = Answer(status, body)
    assert answer.outcome() is outcome
    assert answer.is_open is (outcome is None)
    assert not answer.is_not_done


@pytest.mark.parametrize("status", [429, 503])
def test_requests_that_were_not_carried_out(status: int) -> None:
    answer = Answer(status, {})
    assert answer.is_not_done
    assert not answer.is_open


def test_an_answer_that_no_write_should_get() -> None:
    with pytest.raises(ValueError, match="422 too long"):
        Answer(422, {"message": "too long"}).outcome()


def test_parts_of_answers() -> None:
    assert Answer(422, TAKEN).refused_fields() == {"spec.ports[0].nodePort"}
    assert Answer(403, {"message": 'forbidden: exceeded quota: "q"'}).is_over_quota
    assert not Answer(403, {"message": "forbidden"}).is_over_quota
    obj = {"metadata": {"resourceVersion": "7", "annotations": {"state": "c1-1"}}}
    assert (state_of(obj), revision_of(obj)) == ("c1-1", 7)
    assert state_of({"metadata": {}}) == ""

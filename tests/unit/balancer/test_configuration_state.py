"""The status of a ConfigurationState, and names that are too long for it."""

from __future__ import annotations

import json

import pytest

from bridgehead.balancer.configuration_state import state_status
from bridgehead.balancer.short_names import NAME_CHARACTERS, shortened
from bridgehead.client.codec import codec_of
from bridgehead.objects.metallb import CONFIGURATION_STATES, ConfigurationState

CONDITION = "configReconcilerValid"
TIME, LATER = 1_000_000_000.0, 1_000_000_060.0
TIME_TEXT, LATER_TEXT = "2001-09-09T01:46:40Z", "2001-09-09T01:47:40Z"


def stored(status: object) -> ConfigurationState:
    body = json.dumps({"metadata": {"name": "speaker-node1"}, "status": status}).encode()
    return codec_of(CONFIGURATION_STATES).decode_object(body)


def test_a_valid_configuration():
    status = state_status(None, CONDITION, "", TIME)
    condition = {"type": CONDITION, "status": "True", "reason": "Reconciled", "message": ""}
    assert status == {
        "result": "Valid",
        "errorSummary": None,  # removed by the patch
        "conditions": [{**condition, "lastTransitionTime": TIME_TEXT}],
    }
    assert state_status(stored(status), CONDITION, "", LATER) is None


def test_an_invalid_one_keeps_the_time_of_its_first_error():
    first = state_status(stored(state_status(None, CONDITION, "", TIME)), CONDITION, "CIDR overlaps", LATER)
    assert first is not None
    assert (first["result"], first["errorSummary"]) == ("Invalid", "configuration error: CIDR overlaps")
    [condition] = first["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "ConfigurationError")
    assert condition["lastTransitionTime"] == LATER_TEXT
    second = state_status(stored(first), CONDITION, "unknown peer", LATER + 60)
    assert second is not None
    assert second["conditions"][0]["lastTransitionTime"] == LATER_TEXT


@pytest.mark.parametrize("change", [{"result": "Valid"}, {"conditions": []}, {"errorSummary": "x"}])
def test_what_somebody_changed_is_written_again(change):
    status = state_status(None, CONDITION, "CIDR overlaps", TIME)
    assert status is not None
    assert state_status(stored(status | change), CONDITION, "CIDR overlaps", LATER) is not None


def test_only_names_that_are_too_long_are_shortened():
    assert shortened("node1") == "node1"
    assert shortened("a" * 63) == "a" * 63
    first, second = shortened("a" * 64), shortened("a" * 63 + "b")
    assert len(first) == len(second) == 63
    assert first != second
    assert shortened("n" * 49 + "." + "x" * 100).count(".") == 0  # a label does not end with a dot before the hyphen
    assert len(shortened("speaker-" + "a" * 250, NAME_CHARACTERS)) == 253

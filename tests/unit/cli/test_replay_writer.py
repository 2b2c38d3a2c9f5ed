"""Writes of a replay: those that are made at the same time, and changes of an object."""

from __future__ import annotations

from bridgehead.cli.replay_writer import batches, merge_patch
from bridgehead.insight.recording.replay_plan import Action
from bridgehead.objects.kinds import ENDPOINT_SLICES, SERVICES


def test_writes_of_one_moment_are_made_together_unless_their_order_matters():
    a, b = Action(0.0, SERVICES, "default", "a", {}), Action(0.0, SERVICES, "default", "b", {})
    a_slice, later = Action(0.0, ENDPOINT_SLICES, "default", "a", {}), Action(5.0, ENDPOINT_SLICES, "default", "b", {})

    assert list(batches([a, b, a_slice, later])) == [[a, b], [a_slice], [later]]
    assert list(batches([a, b, a])) == [[a, b], [a]]
    assert list(batches([])) == []


def test_a_change_writes_only_what_is_new():
    before = {"spec": {"type": "NodePort", "ports": [{"port": 80}], "selector": {"a": "1", "b": "2"}}, "metadata": {}}
    after = {"spec": {"type": "NodePort", "ports": [{"port": 81}], "selector": {"a": "1"}}, "metadata": {"labels": {}}}

    assert merge_patch(before, after) == {
        "spec": {"ports": [{"port": 81}], "selector": {"b": None}},
        "metadata": {"labels": {}},
    }
    assert merge_patch(before, before) == {}
    assert merge_patch({}, after) == after

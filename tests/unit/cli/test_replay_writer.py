"""Writes of a replay that are made at the same time."""

from __future__ import annotations

from bridgehead.cli.replay_writer import batches
from bridgehead.insight.recording.rebuilding import Action
from bridgehead.objects.kinds import ENDPOINT_SLICES, SERVICES


def test_writes_of_one_moment_are_made_together_unless_their_order_matters():
    a, b = Action(0.0, SERVICES, "default", "a", {}), Action(0.0, SERVICES, "default", "b", {})
    a_slice, later = Action(0.0, ENDPOINT_SLICES, "default", "a", {}), Action(5.0, ENDPOINT_SLICES, "default", "b", {})

    assert list(batches([a, b, a_slice, later])) == [[a, b], [a_slice], [later]]
    assert list(batches([a, b, a])) == [[a, b], [a]]
    assert list(batches([])) == []

"""The text of a FailedScheduling Event."""

from __future__ import annotations

from bridgehead.controllers.scheduling.refusal_texts import explain_everywhere, with_preemption


def test_a_reason_that_holds_for_every_node() -> None:
    reason = "pod has unbound immediate PersistentVolumeClaims"
    assert explain_everywhere(reason, 3) == f"0/3 nodes are available: {reason}. not found"
    assert explain_everywhere(reason, 0) == "no nodes available to schedule pods"


def test_the_text_of_preemption_follows() -> None:
    assert with_preemption("0/1 nodes are available: 1 Insufficient cpu.", "") == (
        "0/1 nodes are available: 1 Insufficient cpu."
    )
    assert with_preemption("0/1 nodes are available: 1 Insufficient cpu.", "not eligible.") == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: not eligible."
    )

"""Statuses that are written at once."""

from __future__ import annotations

import pytest

from bridgehead.kubelet.pods.pod_reporter import is_urgent
from bridgehead.objects.core import Container, Pod, PodSpec, PodStatus
from bridgehead.objects.meta import Condition

PENDING, RUNNING, SUCCEEDED = (PodStatus(phase=phase) for phase in ("Pending", "Running", "Succeeded"))
READY = PodStatus(phase="Running", conditions=(Condition(type="Ready", status="True"),))


@pytest.mark.parametrize(
    ("policy", "stdin", "old", "new", "expected"),
    [
        ("Always", False, PodStatus(), PENDING, False),
        ("Always", False, PENDING, RUNNING, True),
        ("Always", False, RUNNING, READY, True),
        ("Always", False, READY, READY, False),
        ("Always", True, PENDING, READY, True),
        ("Never", False, PENDING, READY, True),
        ("Never", True, PENDING, READY, False),  # the command may end at once
        ("OnFailure", True, READY, SUCCEEDED, True),
    ],
)
def test_changes_of_phase_and_readiness_are_urgent(policy, stdin, old, new, expected):
    pod = Pod(spec=PodSpec(containers=(Container(name="c", stdin=stdin),), restart_policy=policy))
    assert is_urgent(pod, old, new) == expected

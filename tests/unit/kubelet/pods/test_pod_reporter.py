"""Statuses that are computed, and those that are written at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from bridgehead.kubelet.containers.runs import Run, Waiting
from bridgehead.kubelet.metrics.operations import KubeletMetrics
from bridgehead.kubelet.pods.pod_reporter import PodReporter, is_urgent
from bridgehead.kubelet.pods.worker_state import Deletion, PodSyncStatus
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


class Containers:
    """The state of a pod's containers, of which none has run."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.previous: dict[str, Run] = {}
        self.waiting: dict[str, Waiting] = {}

    def is_started(self, name: str) -> bool:
        return True

    def is_ready(self, name: str) -> bool:
        return True


class Manager:
    """Keeps the statuses that were submitted."""

    def __init__(self) -> None:
        self.latest = PodStatus()
        self.submitted: list[PodStatus] = []

    def submit(self, status: PodStatus, *, urgent: bool) -> None:
        self.latest = status
        self.submitted.append(status)


@pytest.fixture
def world():
    """A reporter, what it reads, and the manager that it writes to."""
    pod = Pod(spec=PodSpec(containers=(Container(name="c"),)))
    node = SimpleNamespace(settings=SimpleNamespace(ips=("10.0.0.201",)), metrics=KubeletMetrics())
    context: Any = SimpleNamespace(pod=pod, node=node, pod_ips=(), sandbox=None)
    resize: Any = SimpleNamespace(actual={}, allocated={}, conditions=lambda: ())
    containers: Any = Containers()
    manager: Any = Manager()
    reporter = PodReporter(context, containers, resize, manager)
    return SimpleNamespace(reporter=reporter, context=context, containers=containers, manager=manager)


def test_a_status_is_computed_once_for_each_change(world):
    world.reporter.publish(PodSyncStatus())
    world.reporter.publish(PodSyncStatus())
    assert len(world.manager.submitted) == 1
    world.containers.runs["c"] = Run(attempt=0, id="1", started_at=1000.0)
    world.reporter.publish(PodSyncStatus())
    assert [status.phase for status in world.manager.submitted] == ["Pending", "Running"]
    world.reporter.publish(PodSyncStatus())
    assert len(world.manager.submitted) == 2


def test_a_changed_pod_gets_its_status_anew(world):
    world.reporter.publish(PodSyncStatus())
    world.context.pod = msgspec.structs.replace(world.context.pod)
    world.reporter.publish(PodSyncStatus())
    assert len(world.manager.submitted) == 2


def test_the_status_of_a_pod_that_is_deleted_is_submitted_again(world):
    world.reporter.publish(PodSyncStatus())
    world.reporter.publish(PodSyncStatus(deletion=Deletion.REQUESTED))
    assert len(world.manager.submitted) == 2

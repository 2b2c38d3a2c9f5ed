"""What the kubelet remembers of a pod's containers."""

from __future__ import annotations

from bridgehead.kubelet.containers import PodContainers
from bridgehead.kubelet.plan import Run
from bridgehead.objects.core import Pod


def test_runs_that_never_started_are_counted() -> None:
    """They have no id to be told apart by."""
    containers = PodContainers(Pod(), lambda: None)
    for attempt in range(3):
        before = containers.runs.get("app")
        assert containers.next_attempt("app") == attempt
        run = Run(attempt=attempt, started_at=float(attempt), finished_at=float(attempt), exit_code=128)
        containers.started("app", before, run, float(attempt))
        assert containers.runs["app"] is run


def test_a_run_that_has_ended_stays_ended() -> None:
    containers = PodContainers(Pod(), lambda: None)
    ended = Run(attempt=0, id="a", started_at=1.0, finished_at=2.0)
    containers.set_run("app", ended)
    containers.set_run("app", Run(attempt=0, id="a", started_at=1.0))
    assert containers.runs["app"] is ended

"""The state of a pod's containers."""

from __future__ import annotations

import pytest

from bridgehead.kubelet.containers.pod_containers import PodContainers
from bridgehead.kubelet.containers.runs import Run, StartRefused
from bridgehead.objects.core import Pod


def test_runs_that_failed_to_start_are_counted() -> None:
    """Runs without an id are distinguished by their attempt."""
    containers = PodContainers(Pod(), lambda: None)
    for attempt in range(3):
        before = containers.runs.get("app")
        assert containers.next_attempt("app") == attempt
        run = Run(attempt=attempt, started_at=float(attempt), finished_at=float(attempt), exit_code=128)
        containers.on_started("app", before, run, float(attempt))
        assert containers.runs["app"] is run


def test_an_exited_run_stays_exited() -> None:
    containers = PodContainers(Pod(), lambda: None)
    ended = Run(attempt=0, id="a", started_at=1.0, finished_at=2.0)
    containers.set_run("app", ended)
    containers.set_run("app", Run(attempt=0, id="a", started_at=1.0))
    assert containers.runs["app"] is ended


def test_a_run_that_is_listed_again_is_no_change() -> None:
    changes: list[None] = []
    containers = PodContainers(Pod(), lambda: changes.append(None))
    for _ in range(2):
        containers.set_run("app", Run(attempt=0, id="a", started_at=1.0))
    assert len(changes) == 1


def test_only_the_run_that_is_ended_for_the_next_one_is_replaced() -> None:
    containers = PodContainers(Pod(), lambda: None)
    containers.replace_run("a")
    for attempt, run_id in enumerate("ab"):
        containers.set_run("app", Run(attempt=attempt, id=run_id, started_at=1.0, finished_at=2.0))
        assert containers.runs["app"].is_replaced == (run_id == "a")


def test_the_error_of_a_start_is_shown_for_a_while() -> None:
    containers, now = PodContainers(Pod(), lambda: None), 1000.0
    containers.on_start_failed("app", "RunContainerError", "no such file", now)
    assert (containers.waiting["app"].reason, containers.next_error_end(["app"])) == ("RunContainerError", now + 3)
    assert [containers.shows_error("app", now + seconds) for seconds in (0.0, 2.9, 3.0)] == [True, True, False]
    containers.on_started("app", None, Run(attempt=1, id="a", started_at=now), now)
    assert (containers.shows_error("app", now), containers.next_error_end(["app"])) == (False, None)


def test_only_containers_in_back_off_wait_for_the_end_of_an_error() -> None:
    """A pod worker that waits for the end of another one would wake up again and again, since nothing changes then."""
    containers = PodContainers(Pod(), lambda: None)
    containers.on_start_failed("app", "PostStartHookError", "no such file", 1000.0)
    assert containers.next_error_end(["web"]) is None


def test_failures_of_another_image_do_not_delay_a_container() -> None:
    containers, now = PodContainers(Pod(), lambda: None), 1000.0
    for _ in range(3):
        containers.on_start_refused("web", StartRefused("ErrImagePull", "not found"), now)
    ended = Run(attempt=0, started_at=now, finished_at=now, exit_code=1)
    containers.on_started("app", None, ended, now)
    containers.on_started("app", ended, Run(attempt=1, started_at=now, finished_at=now, exit_code=1), now)
    assert (containers.not_before("web", None), containers.not_before("app", ended)) == (now + 40, now + 10)
    for name in ("web", "app"):
        containers.forget_back_off(name)
    assert (containers.not_before("web", None), containers.not_before("app", ended)) == (0.0, now)
    assert containers.waiting == {}


@pytest.mark.parametrize(
    ("reason", "waits"),
    [
        ("CreateContainerError", [1, 2, 4, 5, 5]),
        ("ImageInspectError", [1, 2, 4, 5, 5]),
        ("ErrImagePull", [10, 20, 40, 80, 160]),
        ("CreateContainerConfigError", [10, 20, 40, 80, 160]),
    ],
)
def test_a_container_that_cannot_be_started_is_retried_later_each_time(reason: str, waits: list[float]) -> None:
    """Errors of the node, as of a full disk, end sooner than those of a registry or of the pod."""
    containers, now, found = PodContainers(Pod(), lambda: None), 1000.0, []
    for _ in waits:
        containers.on_start_refused("web", StartRefused(reason, "no space left on device"), now)
        found.append(containers.not_before("web", None) - now)
        now = containers.not_before("web", None)
    assert found == waits

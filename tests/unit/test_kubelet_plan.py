"""What to do next for a pod, and how long to wait after failures."""

from __future__ import annotations

import pytest

from bridgehead.kubelet.backoff import BackOff, format_duration
from bridgehead.kubelet.containers import PodContainers
from bridgehead.kubelet.plan import Plan, Run, plan_pod
from bridgehead.objects.core import Container, Pod, PodSpec

UP = Run(attempt=0, id="u", started_at=1.0)
DONE = Run(attempt=0, id="d", started_at=1.0, finished_at=2.0)
FAILED = Run(attempt=0, id="f", started_at=1.0, finished_at=2.0, exit_code=1)
STALE = Run(attempt=0, id="s", started_at=1.0, finished_at=2.0, exit_code=137, is_stale=True)


def spec(policy="Always"):
    return PodSpec(containers=(Container(name="a"), Container(name="b")), restart_policy=policy)


def with_init(policy="Always", sidecar=False):
    first = Container(name="i1", restart_policy="Always" if sidecar else None)
    return PodSpec(
        containers=(Container(name="a"),), init_containers=(first, Container(name="i2")), restart_policy=policy
    )


def plan(spec, runs, *, sandbox=True, started=(), waits=()):
    return plan_pod(
        spec,
        runs,
        has_sandbox=sandbox,
        started=lambda name: name in started,
        not_before=lambda name, run: dict(waits).get(name, 0.0),
        now=100.0,
    )


FINISHED = Plan(finished=True)


@pytest.mark.parametrize(
    ("spec", "runs", "expected"),
    [
        (spec(), {}, Plan(start=("a", "b"))),
        (spec(), {"a": UP}, Plan(start=("b",))),
        (spec(), {"a": UP, "b": UP}, Plan()),
        (spec(), {"a": DONE, "b": UP}, Plan(start=("a",))),
        (spec("OnFailure"), {"a": DONE, "b": UP}, Plan()),
        (spec("OnFailure"), {"a": FAILED, "b": UP}, Plan(start=("a",))),
        (spec("OnFailure"), {"a": DONE, "b": DONE}, FINISHED),
        (spec("Never"), {"a": FAILED, "b": UP}, Plan()),
        (spec("Never"), {"a": FAILED, "b": DONE}, FINISHED),
        (with_init(), {}, Plan(start=("i1",))),
        (with_init(), {"i1": UP}, Plan()),
        (with_init(), {"i1": DONE}, Plan(start=("i2",))),
        (with_init(), {"i1": DONE, "i2": FAILED}, Plan(start=("i2",))),
        (with_init(), {"i1": DONE, "i2": DONE}, Plan(start=("a",))),
        (with_init("Never"), {"i1": FAILED}, FINISHED),
        (with_init("OnFailure"), {"i1": FAILED}, Plan(start=("i1",))),
        (with_init(), {"a": UP}, Plan()),
        (with_init(), {"a": STALE}, Plan(start=("i1",))),
    ],
)
def test_plan(spec, runs, expected):
    assert plan(spec, runs) == expected


@pytest.mark.parametrize(
    ("runs", "started", "expected"),
    [
        ({}, (), Plan(start=("i1",))),
        ({"i1": UP}, (), Plan()),
        ({"i1": UP}, ("i1",), Plan(start=("i2",))),
        ({"i1": UP, "i2": DONE}, ("i1",), Plan(start=("a",))),
        ({"i1": DONE, "i2": DONE, "a": UP}, (), Plan(start=("i1",))),
        ({"i1": UP, "i2": DONE, "a": UP}, ("i1",), Plan()),
    ],
)
def test_sidecars_start_before_and_stay_beside(runs, started, expected):
    assert plan(with_init(sidecar=True), runs, started=started) == expected


def test_a_pod_that_is_only_kept_by_its_sidecar_is_finished():
    assert plan(with_init("Never", sidecar=True), {"i1": UP, "i2": DONE, "a": DONE}, started=("i1",)) == FINISHED


def test_the_sandbox_comes_first_but_not_for_what_is_over():
    assert plan(spec(), {}, sandbox=False) == Plan(create_sandbox=True)
    assert plan(spec("Never"), {"a": DONE, "b": FAILED}, sandbox=False) == FINISHED


def test_who_waits_is_named_with_its_time():
    step = plan(spec(), {"a": FAILED, "b": UP}, waits={"a": 110.0})
    assert step == Plan(back_off={"a": 110.0})
    assert step.wake_at == 110.0


def test_back_off_doubles_to_five_minutes():
    assert crash_again_and_again(BackOff(), 7) == [0, 10, 20, 40, 80, 160, 300]


def crash_again_and_again(back_off: BackOff, times: int) -> list[float]:
    """What a container waits that fails at once, each time."""
    waits, now = [], 1000.0
    for _ in range(times):
        waits.append(back_off.until("a", now) - now)
        now = back_off.until("a", now)
        back_off.retry("a", now, now)
    return waits


@pytest.mark.parametrize("name", ["system-node-critical", "system-cluster-critical"])
def test_critical_pods_wait_a_few_seconds_at_most(name):
    critical = PodContainers(Pod(spec=PodSpec(priority_class_name=name)), lambda: None)
    assert crash_again_and_again(critical._crashes, 6) == [0, 1, 2, 4, 5, 5]
    other = PodContainers(Pod(spec=PodSpec(priority_class_name="high")), lambda: None)
    assert crash_again_and_again(other._crashes, 3) == [0, 10, 20]


def test_back_off_is_forgotten_after_a_long_good_run():
    back_off = BackOff()
    back_off.retry("a", 0.0, 0.0)
    back_off.retry("a", 10.0, 20.0)
    assert back_off.until("a", 30.0) == 50.0
    assert back_off.until("a", 20.0 + 601) == 621.0
    back_off.retry("a", 621.0, 621.0)
    assert back_off.delay("a") == 10.0


@pytest.mark.parametrize(("seconds", "text"), [(10, "10s"), (80, "1m20s"), (300, "5m0s"), (3600, "1h0m0s")])
def test_durations_as_go_prints_them(seconds, text):
    assert format_duration(seconds) == text

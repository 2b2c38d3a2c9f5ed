"""The next actions for a pod, and the back-off after failures."""

from __future__ import annotations

import pytest

from bridgehead.backoff import KeyedBackoff
from bridgehead.kubelet.containers.pod_containers import PodContainers
from bridgehead.kubelet.containers.restart_backoff import format_duration, image_backoff
from bridgehead.kubelet.containers.runs import Run
from bridgehead.kubelet.pods.starts_and_restarts import RESTART_ALL, PodActions, compute_pod_actions
from bridgehead.objects.core import (
    Container,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    EphemeralContainer,
    Pod,
    PodSpec,
)

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


def debugged(policy="Always"):
    ephemeral = (EphemeralContainer(name="debug"),)
    return PodSpec(containers=(Container(name="a"),), ephemeral_containers=ephemeral, restart_policy=policy)


def compute(spec, runs, *, sandbox=True, started=(), waits=()):
    return compute_pod_actions(
        spec,
        runs,
        has_sandbox=sandbox,
        started=lambda name: name in started,
        not_before=lambda name, run: dict(waits).get(name, 0.0),
        now=100.0,
    )


def ruled(action="Restart", values=(42,), operator="In", own="Never", policy="Never", init=False):
    codes = ContainerRestartRuleOnExitCodes(operator=operator, values=values)
    rules = (ContainerRestartRule(action=action, exit_codes=codes), ContainerRestartRule(action="Restart"))
    one = Container(name="r", restart_policy=own, restart_policy_rules=rules)
    main = (Container(name="a"),) if init else (one, Container(name="a"))
    return PodSpec(containers=main, init_containers=(one,) if init else (), restart_policy=policy)


def ended(code, **fields):
    return Run(attempt=0, id="e", started_at=1.0, finished_at=2.0, exit_code=code, **fields)


FINISHED = PodActions(finished=True)


@pytest.mark.parametrize(
    ("spec", "runs", "expected"),
    [
        (spec(), {}, PodActions(start=("a", "b"))),
        (spec(), {"a": UP}, PodActions(start=("b",))),
        (spec(), {"a": UP, "b": UP}, PodActions()),
        (debugged(), {"a": UP}, PodActions(start=("debug",))),
        (debugged(), {"a": UP, "debug": FAILED}, PodActions()),
        (debugged("Never"), {"a": DONE, "debug": UP}, FINISHED),
        (spec(), {"a": DONE, "b": UP}, PodActions(start=("a",))),
        (spec("OnFailure"), {"a": DONE, "b": UP}, PodActions()),
        (spec("OnFailure"), {"a": FAILED, "b": UP}, PodActions(start=("a",))),
        (spec("OnFailure"), {"a": DONE, "b": DONE}, FINISHED),
        (spec("Never"), {"a": FAILED, "b": UP}, PodActions()),
        (spec("Never"), {"a": FAILED, "b": DONE}, FINISHED),
        (spec("Never"), {"a": ended(143, is_replaced=True), "b": DONE}, PodActions(start=("a",))),
        (spec("OnFailure"), {"a": ended(0, is_replaced=True), "b": DONE}, PodActions(start=("a",))),
        (with_init(), {}, PodActions(start=("i1",))),
        (with_init(), {"i1": UP}, PodActions()),
        (with_init(), {"i1": DONE}, PodActions(start=("i2",))),
        (with_init(), {"i1": DONE, "i2": FAILED}, PodActions(start=("i2",))),
        (with_init(), {"i1": DONE, "i2": DONE}, PodActions(start=("a",))),
        (with_init("Never"), {"i1": FAILED}, FINISHED),
        (with_init("OnFailure"), {"i1": FAILED}, PodActions(start=("i1",))),
        (ruled(), {"r": ended(42), "a": UP}, PodActions(start=("r",))),
        (ruled(), {"r": ended(42), "a": DONE}, PodActions(start=("r",))),
        (ruled(), {"r": ended(41), "a": UP}, PodActions()),
        (ruled(), {"r": ended(41), "a": DONE}, FINISHED),
        (ruled(operator="NotIn"), {"r": ended(42), "a": DONE}, FINISHED),
        (ruled(operator="NotIn"), {"r": ended(41), "a": DONE}, PodActions(start=("r",))),
        (ruled(own="OnFailure"), {"r": ended(1), "a": DONE}, PodActions(start=("r",))),
        (ruled(init=True), {"r": ended(42)}, PodActions(start=("r",))),
        (ruled(init=True), {"r": ended(1)}, FINISHED),
        (ruled(init=True, policy="Always"), {"r": ended(1)}, FINISHED),
        (ruled(RESTART_ALL), {"r": ended(42), "a": UP}, PodActions(restart_all="r")),
        (ruled(RESTART_ALL), {"r": ended(42), "a": DONE}, PodActions(restart_all="r")),
        (ruled(RESTART_ALL), {"r": ended(1), "a": DONE}, FINISHED),
        (ruled(RESTART_ALL, policy="Always"), {"r": ended(42, is_stale=True), "a": UP}, PodActions(start=("r",))),
        (ruled(RESTART_ALL), {"r": ended(137, reason="RestartingAllContainers")}, PodActions(start=("r", "a"))),
        (ruled(RESTART_ALL, init=True), {"r": ended(42)}, PodActions(restart_all="r")),
        (with_init(), {"a": UP}, PodActions()),
        (with_init(), {"a": STALE}, PodActions(start=("i1",))),
    ],
)
def test_actions_follow_the_pods_state(spec, runs, expected):
    assert compute(spec, runs) == expected


@pytest.mark.parametrize(
    ("runs", "started", "expected"),
    [
        ({}, (), PodActions(start=("i1",))),
        ({"i1": UP}, (), PodActions()),
        ({"i1": UP}, ("i1",), PodActions(start=("i2",))),
        ({"i1": UP, "i2": DONE}, ("i1",), PodActions(start=("a",))),
        ({"i1": DONE, "i2": DONE, "a": UP}, (), PodActions(start=("i1",))),
        ({"i1": UP, "i2": DONE, "a": UP}, ("i1",), PodActions()),
    ],
)
def test_sidecars_start_before_the_others_and_keep_running(runs, started, expected):
    assert compute(with_init(sidecar=True), runs, started=started) == expected


def test_a_pod_with_only_a_running_sidecar_is_finished():
    assert compute(with_init("Never", sidecar=True), {"i1": UP, "i2": DONE, "a": DONE}, started=("i1",)) == FINISHED


def test_the_sandbox_is_created_first_except_for_a_finished_pod():
    assert compute(spec(), {}, sandbox=False) == PodActions(create_sandbox=True)
    assert compute(spec("Never"), {"a": DONE, "b": FAILED}, sandbox=False) == FINISHED


def test_back_off_names_the_container_and_its_delay():
    step = compute(spec(), {"a": FAILED, "b": UP}, waits={"a": 110.0})
    assert step == PodActions(back_off={"a": 110.0})
    assert step.wake_at == 110.0


def test_back_off_doubles_to_five_minutes():
    assert crash_again_and_again(image_backoff(), 7) == [0, 10, 20, 40, 80, 160, 300]


def crash_again_and_again(back_off: KeyedBackoff[str], times: int) -> list[float]:
    """Return how long a container that fails at once waits each time."""
    waits, now = [], 1000.0
    for _ in range(times):
        waits.append(back_off.until("a", now) - now)
        now = back_off.until("a", now)
        back_off.record("a", now, now)
    return waits


@pytest.mark.parametrize("name", ["system-node-critical", "system-cluster-critical"])
def test_critical_pods_wait_a_few_seconds_at_most(name):
    critical = PodContainers(Pod(spec=PodSpec(priority_class_name=name)), lambda: None)
    assert crash_again_and_again(critical._crashes, 6) == [0, 1, 2, 4, 5, 5]
    other = PodContainers(Pod(spec=PodSpec(priority_class_name="high")), lambda: None)
    assert crash_again_and_again(other._crashes, 3) == [0, 10, 20]


def test_back_off_is_reset_after_a_long_run():
    back_off = image_backoff()
    back_off.record("a", 0.0, 0.0)
    back_off.record("a", 10.0, 20.0)
    assert back_off.until("a", 30.0) == 50.0
    assert back_off.until("a", 20.0 + 601) == 621.0
    back_off.record("a", 621.0, 621.0)
    assert back_off.delay("a") == 10.0


@pytest.mark.parametrize(("seconds", "text"), [(10, "10s"), (80, "1m20s"), (300, "5m0s"), (3600, "1h0m0s")])
def test_durations_are_printed_as_in_go(seconds, text):
    assert format_duration(seconds) == text

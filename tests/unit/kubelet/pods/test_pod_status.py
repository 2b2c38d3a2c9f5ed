"""A pod's phase, conditions and container statuses, and the patch of a status."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridgehead.kubelet.containers.runs import Run, Waiting, known_runs
from bridgehead.kubelet.pods.pod_status import PodView, pod_status
from bridgehead.kubelet.pods.status_patch import status_patch
from bridgehead.objects.core import (
    Container,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    EphemeralContainer,
    LinuxContainerUser,
    Pod,
    PodIP,
    PodReadinessGate,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    VolumeMount,
)
from bridgehead.objects.meta import Condition, ObjectMeta
from bridgehead.objects.times import parse_time

NOW = parse_time("2026-11-21T03:00:00Z")
UP = Run(attempt=0, id="u", image_id="img", started_at=NOW - 5)
DONE = Run(attempt=0, id="d", started_at=NOW - 5, finished_at=NOW)
FAILED = Run(attempt=2, id="f", started_at=NOW - 5, finished_at=NOW, exit_code=3, message="words")


def pod(policy="Always", *, init=(), names=("a", "b"), gates=(), conditions=(), phase=""):
    spec = PodSpec(
        containers=tuple(Container(name=n, image=f"{n}:1") for n in names),
        init_containers=init,
        restart_policy=policy,
        readiness_gates=tuple(PodReadinessGate(condition_type=g) for g in gates),
    )
    return Pod(metadata=ObjectMeta(name="p"), spec=spec, status=PodStatus(conditions=conditions, phase=phase))


def view(runs, *, ready=None, **more):
    up = frozenset(name for name, run in runs.items() if run.is_running)
    values = {
        "host_ips": ("10.0.0.201", "fd00:10::201"),
        "pod_ips": ("10.244.1.2", "fd00:10:244:1::2"),
        "has_sandbox": True,
        "started": up,
    }
    return PodView(**{**values, "runs": runs, "ready": up if ready is None else frozenset(ready), **more})


def condition(status, type):
    return next(c for c in status.conditions if c.type == type)


I1 = Container(name="i1")
SIDE = Container(name="side", restart_policy="Always")


@pytest.mark.parametrize(
    ("pod", "runs", "phase"),
    [
        (pod(), {}, "Pending"),
        (pod(), {"a": UP}, "Pending"),
        (pod(), {"a": UP, "b": UP}, "Running"),
        (pod(), {"a": DONE, "b": DONE}, "Running"),
        (pod("Never"), {"a": DONE, "b": UP}, "Running"),
        (pod("Never"), {"a": DONE, "b": DONE}, "Succeeded"),
        (pod("Never"), {"a": DONE, "b": FAILED}, "Failed"),
        (pod("OnFailure"), {"a": DONE, "b": FAILED}, "Running"),
        (pod("OnFailure"), {"a": DONE, "b": DONE}, "Succeeded"),
        (pod(init=(I1,)), {"i1": UP}, "Pending"),
        (pod("Never", init=(I1,)), {"i1": FAILED}, "Failed"),
        (pod("Never", init=(SIDE,)), {"side": UP, "a": DONE, "b": DONE}, "Running"),
        (pod(phase="Succeeded"), {"a": UP, "b": UP}, "Succeeded"),
    ],
)
def test_the_phase_follows_the_containers(pod, runs, phase):
    assert pod_status(pod, view(runs), NOW).phase == phase


@pytest.mark.parametrize(("last", "phase"), [(DONE, "Succeeded"), (FAILED, "Failed")])
def test_a_stopped_pods_phase_follows_its_exit_codes(last, phase):
    assert pod_status(pod(), view({"a": DONE, "b": last}, is_over=True), NOW).phase == phase


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("Evicted", "too much"),
        ("Preempting", "Pod was preempted by Kubelet to accommodate a critical pod."),
    ],
)
def test_a_pod_that_its_node_ends_is_disrupted(reason, message):
    found = condition(pod_status(pod(), view({}, failure=(reason, "too much")), NOW), "DisruptionTarget")
    assert (found.status, found.reason, found.message) == ("True", "TerminationByKubelet", message)


RULE = ContainerRestartRule(
    action="RestartAllContainers", exit_codes=ContainerRestartRuleOnExitCodes(operator="In", values=(3,))
)


@pytest.mark.parametrize(
    ("runs", "more", "expected"),
    [
        ({"a": UP}, {}, ("False", "", "")),
        ({"a": DONE}, {}, ("False", "", "")),
        ({"a": FAILED}, {}, ("True", "RestartAllContainersStarted", "container exited with restart policy rule")),
        ({"a": DONE}, {"is_over": True}, ("False", "PodCompleted", "")),
        ({"a": FAILED}, {"is_over": True}, ("False", "PodFailed", "")),
    ],
)
def test_a_condition_shows_the_restart_of_all_containers(runs, more, expected):
    ruled = Container(name="a", restart_policy="Always", restart_policy_rules=(RULE,))
    made = Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(containers=(ruled,)))
    found = condition(pod_status(made, view(runs, **more), NOW), "AllContainersRestarting")
    assert (found.status, found.reason, found.message) == expected


def test_a_pod_without_such_a_rule_has_no_condition_of_a_restart():
    assert "AllContainersRestarting" not in {c.type for c in pod_status(pod(), view({}), NOW).conditions}


def test_a_rejected_pod_has_no_container_statuses():
    rejected = view({}, is_over=True, is_rejected=True, failure=("AppArmor", "Pod was rejected: no"))
    status = pod_status(pod(init=(Container(name="i"),)), rejected, NOW)
    assert (status.phase, status.reason, status.message) == ("Failed", "AppArmor", "Pod was rejected: no")
    assert status.container_statuses == status.init_container_statuses == ()
    known = msgspec.structs.replace(pod(), status=status)
    after_restart = pod_status(known, view({}, is_over=True), NOW)
    assert (after_restart.phase, after_restart.reason, after_restart.container_statuses) == ("Failed", "AppArmor", ())


def test_a_pod_ended_by_the_kubelet_has_reason_and_message():
    ending = pod_status(pod(), view({"a": UP, "b": DONE}, failure=("DeadlineExceeded", "too long")), NOW)
    assert (ending.phase, ending.reason, ending.message) == ("Running", "", "")
    over = view({"a": DONE, "b": DONE}, is_over=True, failure=("DeadlineExceeded", "too long"))
    status = pod_status(pod(), over, NOW)
    assert (status.phase, status.reason, status.message) == ("Failed", "DeadlineExceeded", "too long")


@pytest.mark.parametrize(
    ("pod", "view", "expected"),
    [
        (
            pod(),
            view({}, has_sandbox=False, pod_ips=()),
            {
                "PodReadyToStartContainers": ("False", "", ""),
                "Initialized": ("True", "", ""),
                "Ready": ("False", "ContainersNotReady", "containers with unready status: [a b]"),
                "ContainersReady": ("False", "ContainersNotReady", "containers with unready status: [a b]"),
                "PodScheduled": ("True", "", ""),
            },
        ),
        (
            pod(),
            view({"a": UP, "b": UP}, ready=["a"]),
            {
                "PodReadyToStartContainers": ("True", "", ""),
                "Initialized": ("True", "", ""),
                "Ready": ("False", "ContainersNotReady", "containers with unready status: [b]"),
                "ContainersReady": ("False", "ContainersNotReady", "containers with unready status: [b]"),
            },
        ),
        (pod(), view({"a": UP, "b": UP}), {"Ready": ("True", "", ""), "ContainersReady": ("True", "", "")}),
        (
            pod(init=(I1, Container(name="i2"))),
            view({"i1": DONE, "i2": UP}),
            {"Initialized": ("False", "ContainersNotInitialized", "containers with incomplete status: [i2]")},
        ),
        (
            pod("Never"),
            view({"a": DONE, "b": DONE}),
            {
                "Initialized": ("True", "PodCompleted", ""),
                "Ready": ("False", "PodCompleted", ""),
                "ContainersReady": ("False", "PodCompleted", ""),
            },
        ),
        (pod("Never"), view({"a": DONE, "b": FAILED}), {"Ready": ("False", "PodFailed", "")}),
        (
            pod(gates=("lb",)),
            view({"a": UP, "b": UP}),
            {
                "Ready": (
                    "False",
                    "ReadinessGatesNotReady",
                    'corresponding condition of pod readiness gate "lb" does not exist.',
                ),
                "ContainersReady": ("True", "", ""),
            },
        ),
        (
            pod(gates=("lb",), conditions=(Condition(type="lb", status="False"),)),
            view({"a": UP, "b": UP}),
            {
                "Ready": (
                    "False",
                    "ReadinessGatesNotReady",
                    'the status of pod readiness gate "lb" is not "True", but False',
                )
            },
        ),
    ],
    ids=["new", "half ready", "ready", "initializing", "succeeded", "failed", "gate missing", "gate false"],
)
def test_conditions_follow_the_containers(pod, view, expected):
    status = pod_status(pod, view, NOW)
    found = {name: condition(status, name) for name in expected}
    assert {name: (c.status, c.reason, c.message) for name, c in found.items()} == expected


def test_a_condition_keeps_its_transition_time():
    old = Condition(type="Ready", status="True", last_transition_time="2026-01-01T00:00:00Z")
    ready = pod_status(pod(conditions=(old,)), view({"a": UP, "b": UP}), NOW)
    assert condition(ready, "Ready").last_transition_time == "2026-01-01T00:00:00Z"
    unready = pod_status(pod(conditions=(old,)), view({"a": UP, "b": UP}, ready=[]), NOW)
    assert condition(unready, "Ready").last_transition_time == "2026-11-21T03:00:00Z"


def container_status(run, *, waiting=None, previous=None, **more):
    state = view(
        {"a": run} if run else {},
        waiting={"a": waiting} if waiting else {},
        previous={"a": previous} if previous else {},
        **more,
    )
    return pod_status(pod(names=("a",)), state, NOW).container_statuses[0]


def shape(state):
    return {name: value for name, value in msgspec.to_builtins(state).items() if value is not None}


def test_a_container_that_is_being_created_waits():
    status = container_status(None)
    assert shape(status.state) == {"waiting": {"reason": "ContainerCreating"}}
    assert (status.image, status.ready, status.started, status.restart_count) == ("a:1", False, False, 0)


def test_a_running_container_has_its_start_time():
    status = container_status(UP)
    assert shape(status.state) == {"running": {"startedAt": "2026-11-21T02:59:55Z"}}
    assert (status.container_id, status.image_id, status.ready, status.started) == ("bridgehead://u", "img", True, True)


def test_a_crashing_container_waits_in_back_off():
    waiting = Waiting("CrashLoopBackOff", "back-off 10s")
    status = container_status(FAILED, waiting=waiting)
    assert shape(status.state) == {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    terminated = status.last_state.terminated
    assert (terminated.exit_code, terminated.reason, terminated.message) == (3, "Error", "words")
    assert status.restart_count == 2


def test_a_restarted_container_keeps_its_last_state():
    status = container_status(msgspec.structs.replace(UP, attempt=3), previous=FAILED)
    assert status.state.running
    assert status.last_state.terminated.exit_code == 3
    assert status.restart_count == 3


def test_a_container_status_shows_its_mounts_and_its_user():
    """The mounts are shown before the container runs; also after a restart of the kubelet, its user."""
    mounts = (
        VolumeMount(name="v", mount_path="/v"),
        VolumeMount(name="r", mount_path="/r", read_only=True),
        VolumeMount(name="r", mount_path="/all", read_only=True, recursive_read_only="IfPossible"),
    )
    spec = PodSpec(containers=(Container(name="a", volume_mounts=mounts),))
    user = LinuxContainerUser(uid=7, gid=8, supplemental_groups=(8,))
    waiting, running = (
        pod_status(Pod(metadata=ObjectMeta(name="p"), spec=spec), view(runs), NOW).container_statuses[0]
        for runs in ({}, {"a": msgspec.structs.replace(UP, user=user)})
    )
    assert msgspec.to_builtins(waiting.volume_mounts) == msgspec.to_builtins(running.volume_mounts)
    assert msgspec.to_builtins(running.volume_mounts) == (
        {"name": "v", "mountPath": "/v"},
        {"name": "r", "mountPath": "/r", "readOnly": True, "recursiveReadOnly": "Disabled"},
        {"name": "r", "mountPath": "/all", "readOnly": True, "recursiveReadOnly": "Enabled"},
    )
    assert running.user is not None
    assert (waiting.user, running.user.linux) == (None, user)
    runs, _ = known_runs((running,), NOW)
    assert runs["a"].user == user


def test_statuses_of_containers_are_sorted_by_name():
    """Kubelets sort them, too; messages of conditions have the order of the spec."""
    status = pod_status(pod(names=("z", "a"), init=(SIDE, I1)), view({}), NOW)
    assert [one.name for one in status.container_statuses] == ["a", "z"]
    assert [one.name for one in status.init_container_statuses] == ["side", "i1"]
    assert condition(status, "ContainersReady").message == "containers with unready status: [side z a]"


def test_a_container_waits_for_the_init_containers():
    status: Any = pod_status(pod(init=(I1,)), view({"i1": UP}), NOW)
    assert status.container_statuses[0].state.waiting.reason == "PodInitializing"
    assert status.init_container_statuses[0].ready is False
    done: Any = pod_status(pod(init=(I1,)), view({"i1": DONE}), NOW)
    assert done.init_container_statuses[0].ready is True
    assert done.init_container_statuses[0].state.terminated.reason == "Completed"


def test_an_ephemeral_container_is_shown_and_never_ready():
    observed = pod()
    spec = msgspec.structs.replace(observed.spec, ephemeral_containers=(EphemeralContainer(name="debug"),))
    status = pod_status(msgspec.structs.replace(observed, spec=spec), view({"a": UP, "b": UP, "debug": UP}), NOW)
    (shown,) = status.ephemeral_container_statuses
    assert (shown.name, shown.ready, shown.started, shown.state.running is not None) == ("debug", False, None, True)
    assert condition(status, "Ready").status == "True"


def test_the_status_names_the_generation_that_it_is_about():
    observed = pod()
    newer = msgspec.structs.replace(observed, metadata=ObjectMeta(name="p", generation=3))
    status = pod_status(newer, view({"a": UP, "b": UP}), NOW)
    assert status.observed_generation == 3
    assert {one.observed_generation for one in status.conditions} == {3}


def test_runs_are_restored_from_the_status_after_a_restart():
    status = pod_status(
        pod(names=("up", "crashing", "done", "new")),
        view(
            {"up": UP, "crashing": FAILED, "done": DONE},
            waiting={"crashing": Waiting("CrashLoopBackOff")},
            previous={"up": FAILED},
        ),
        NOW,
    )
    runs, previous = known_runs(status.container_statuses, NOW + 60)
    assert {name: (run.exit_code, run.reason) for name, run in runs.items()} == {
        "up": (137, "ContainerStatusUnknown"),
        "crashing": (3, "Error"),
        "done": (0, "Completed"),
    }
    assert previous["up"].exit_code == 3
    assert set(previous) == {"up"}


# --- The patch ---------------------------------------------------------------------------------------------


def test_an_unchanged_status_gives_no_patch():
    status = pod_status(pod(), view({"a": UP, "b": UP}), NOW)
    assert status_patch(status, status) == {}


def test_an_exit_code_of_0_is_written():
    """Scripts read it: the field is always there in Kubernetes."""
    done = pod_status(pod("Never"), view({"a": DONE, "b": UP}, previous={"b": DONE}), NOW)
    patch: Any = status_patch(PodStatus(), done)
    a, b = patch["containerStatuses"]
    assert a["state"]["terminated"]["exitCode"] == b["lastState"]["terminated"]["exitCode"] == 0
    assert "terminated" not in b["state"]


def test_only_changed_fields_are_patched():
    before = pod_status(pod(), view({"a": UP, "b": UP}, ready=["a"]), NOW)
    ready = msgspec.structs.replace(pod(), status=before)
    after = pod_status(ready, view({"a": UP, "b": UP}), NOW + 1)
    patch = status_patch(before, after)
    assert set(patch) == {"conditions", "containerStatuses"}
    assert patch["conditions"] == [
        {
            "type": name,
            "status": "True",
            "reason": None,
            "message": None,
            "lastTransitionTime": "2026-11-21T03:00:01Z",
        }
        for name in ("Ready", "ContainersReady")
    ]


def test_a_changed_address_deletes_the_old_one():
    patch = status_patch(
        PodStatus(pod_ip="10.0.0.1", pod_ips=(PodIP(ip="10.0.0.1"),)),
        PodStatus(pod_ip="10.0.0.2", pod_ips=(PodIP(ip="10.0.0.2"),)),
    )
    assert patch == {"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}, {"$patch": "delete", "ip": "10.0.0.1"}]}


def test_foreign_conditions_are_kept():
    foreign = (Condition(type="lb", status="False"), Condition(type="PodScheduled", status="True"))
    before = PodStatus(conditions=(Condition(type="lb", status="True"), foreign[1]))
    assert status_patch(before, PodStatus(conditions=foreign)) == {}


def test_a_condition_of_a_resize_goes_with_it():
    pending = Condition(type="PodResizePending", status="True", reason="Infeasible", message="no")
    status = pod_status(pod(), view({"a": UP, "b": UP}, resize_conditions=(pending,)), NOW)
    shown = condition(status, "PodResizePending")
    assert (shown.reason, shown.last_transition_time) == ("Infeasible", "2026-11-21T03:00:00Z")
    again = pod_status(
        pod(conditions=status.conditions), view({"a": UP, "b": UP}, resize_conditions=(pending,)), NOW + 9
    )
    assert set(again.conditions) == set(status.conditions)
    after = pod_status(pod(conditions=status.conditions), view({"a": UP, "b": UP}), NOW + 9)
    assert all(c.type != "PodResizePending" for c in after.conditions)
    assert status_patch(status, after)["conditions"] == [{"$patch": "delete", "type": "PodResizePending"}]


def test_a_status_has_the_resources_of_containers_that_ran():
    given = ResourceRequirements(requests={"cpu": "1"}, limits={"cpu": "2"})
    more = ResourceRequirements(requests={"cpu": "3"}, limits={"cpu": "3"})
    resources = {"resources": {"a": given, "b": given}, "allocated": {"a": more, "b": ResourceRequirements()}}
    a, b = pod_status(pod(), view({"a": UP}, **resources), NOW).container_statuses
    assert (a.resources, a.allocated_resources) == (given, {"cpu": "3"})
    assert (b.resources, b.allocated_resources) == (None, None)


def test_a_patch_has_no_condition_of_another_client() -> None:
    """A readiness gate that was observed may have a later value by the time of the patch."""
    gate, scheduled = Condition(type="example.com/gate", status="False"), Condition(type="PodScheduled", status="True")
    new = PodStatus(conditions=(gate, scheduled))
    patch: Any = status_patch(PodStatus(), new)
    assert [each["type"] for each in patch["conditions"]] == ["PodScheduled"]
    assert status_patch(PodStatus(conditions=(scheduled,)), new) == {}

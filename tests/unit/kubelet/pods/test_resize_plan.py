"""In-place resize: what a node can give, what takes a restart."""

from __future__ import annotations

import pytest

from bridgehead.kubelet.pods.resize_plan import (
    WHOLE,
    earlier_resizes,
    effective_resources,
    known_resources,
    needs_restart,
    resize_message,
    resize_refusal,
    spec_resources,
    widest,
    with_resizes,
    with_resources,
)
from bridgehead.kubelet.runtimes.runtime import Limits
from bridgehead.objects.core import (
    Container,
    ContainerResizePolicy,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from bridgehead.objects.meta import ObjectMeta

NODE = {"cpu": "4", "memory": "1Gi"}


def amounts(cpu: str, memory: str = "100Mi", limit: str = "") -> ResourceRequirements:
    return ResourceRequirements(requests={"cpu": cpu, "memory": memory}, limits={"cpu": limit} if limit else {})


def pod(
    cpu: str,
    memory: str = "100Mi",
    *,
    phase: str = "Running",
    status: tuple[ContainerStatus, ...] = (),
    setup_cpu: str = "1",
    overhead: str = "0",
) -> Pod:
    setup = Container(name="setup", resources=amounts(setup_cpu))
    sidecar = Container(name="mesh", restart_policy="Always", resources=amounts("1"))
    main = Container(name="app", resources=amounts(cpu, memory))
    spec = PodSpec(containers=(main,), init_containers=(setup, sidecar), overhead={"cpu": overhead})
    return Pod(spec=spec, status=PodStatus(phase=phase, container_statuses=status))


@pytest.mark.parametrize(
    ("wanted", "others", "refusal"),
    [
        (pod("2"), [], None),
        (pod("3"), [], None),
        (pod("3100m"), [], ("Infeasible", "Node didn't have enough capacity: cpu, requested: 4100, capacity: 4000")),
        (
            pod("9", "2Gi"),
            [],
            (
                "Infeasible",
                "Node didn't have enough capacity: memory, requested: 2252341248, capacity: 1073741824",
            ),
        ),
        (pod("1"), [pod("1")], None),
        (
            pod("2"),
            [pod("1")],
            ("Deferred", "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000"),
        ),
        # Requests of init containers, which have ended, and of the RuntimeClass count as for the scheduler.
        (
            pod("1", setup_cpu="3"),
            [pod("1")],
            ("Deferred", "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000"),
        ),
        (
            pod("1", setup_cpu="5"),
            [],
            ("Infeasible", "Node didn't have enough capacity: cpu, requested: 5000, capacity: 4000"),
        ),
        (
            pod("2"),
            [pod("0", overhead="500m")],
            ("Deferred", "Node didn't have enough resource: cpu, requested: 3000, used: 1500, capacity: 4000"),
        ),
    ],
)
def test_what_a_node_can_give(wanted, others, refusal) -> None:
    assert resize_refusal(wanted, others, NODE) == refusal


def test_resources_of_an_earlier_kubelet_are_known() -> None:
    resized = pod("2", status=(ContainerStatus(name="app", resources=amounts("1")), ContainerStatus(name="x")))
    known = known_resources(resized)
    assert (known["app"], known["mesh"]) == (amounts("1"), amounts("1"))
    allocated = with_resources(resized, known)
    assert spec_resources(allocated) == known
    assert with_resources(resized, spec_resources(resized)) is resized


@pytest.mark.parametrize(
    ("policies", "new", "restarts"),
    [
        ((), amounts("2", "200Mi"), False),
        ((("cpu", "RestartContainer"),), amounts("2"), True),
        ((("cpu", "RestartContainer"),), amounts("1", limit="2"), True),
        ((("cpu", "RestartContainer"),), amounts("1", "200Mi"), False),
        ((("cpu", "NotRequired"), ("memory", "RestartContainer")), amounts("2"), False),
    ],
)
def test_restarts(policies, new, restarts) -> None:
    made = tuple(ContainerResizePolicy(resource_name=name, restart_policy=policy) for name, policy in policies)
    container = Container(name="app", resize_policy=made)
    assert needs_restart(container, amounts("1"), new) is restarts


def test_a_pod_may_use_the_larger_of_two_limits_while_its_containers_change() -> None:
    before = Limits(memory=5, cpu_millis=100, cpu_request_millis=9, pids=7)
    after = Limits(memory=6, cpu_millis=50, cpu_request_millis=8, pids=7)
    assert widest(before, after) == Limits(memory=6, cpu_millis=100, cpu_request_millis=9, pids=7)
    assert widest(before, Limits()) == Limits(cpu_request_millis=9)


def test_resources_of_the_whole_pod_are_given_and_restored() -> None:
    """A container without a limit has that of the pod. Resources that are not allocated yet do not count."""
    own, whole = amounts("1", limit="2"), ResourceRequirements(limits={"cpu": "3", "memory": "1Gi"})
    wanted = Pod(spec=PodSpec(containers=(Container(name="app", resources=own),), resources=whole))
    assert spec_resources(wanted) == {"app": own, WHOLE: whole}
    effective = effective_resources(spec_resources(wanted), "app")
    assert (effective.limits, effective.requests) == ({"cpu": "2", "memory": "1Gi"}, own.requests)
    assert with_resources(wanted, {"app": own}).spec.resources is None
    given = ResourceRequirements(limits={"cpu": "2500m"})
    restarted = Pod(spec=wanted.spec, status=PodStatus(resources=given))
    assert known_resources(restarted) == {"app": own, WHOLE: given}
    assert with_resources(wanted, known_resources(restarted)).spec.resources == given


def test_events_of_a_resize_have_the_resources_as_json() -> None:
    spec = PodSpec(containers=(Container(name="a", resources=ResourceRequirements(limits={"cpu": "1"})),))
    wanted = Pod(metadata=ObjectMeta(generation=3), spec=spec)
    summary = '{"containers":[{"name":"a","resources":{"limits":{"cpu":"1"}}}],"generation":3'
    assert resize_message(wanted, "started") == f"Pod resize started: {summary}}}"
    assert resize_message(wanted, "Deferred", "no room") == f'Pod resize Deferred: {summary},"error":"no room"}}'


def waiting(uid: str, cpu: str, *, priority: int = 0, qos: str = "Burstable") -> Pod:
    spec = PodSpec(containers=(Container(name="app", resources=amounts(cpu)),), priority=priority)
    return Pod(metadata=ObjectMeta(uid=uid), spec=spec, status=PodStatus(phase="Running", qos_class=qos))


def test_resizes_get_room_by_priority_class_and_time() -> None:
    first, second = waiting("first", "1", priority=5), waiting("second", "1", qos="Guaranteed")
    third, fourth = waiting("third", "1"), waiting("fourth", "1")
    queue = [(fourth, 20.0), (third, 10.0), (second, 30.0), (first, 40.0)]
    assert earlier_resizes(fourth, 20.0, queue) == [first, second, third]
    assert earlier_resizes(second, 30.0, queue) == [first]
    assert earlier_resizes(waiting("new", "1"), 50.0, queue) == [first, second, third, fourth]


def test_what_earlier_resizes_are_about_to_get_is_taken() -> None:
    own, other, third = waiting("own", "1"), waiting("other", "1"), waiting("third", "1")
    fits, too_large = waiting("other", "2"), waiting("other", "3")
    assert with_resizes([other, third], own, [fits], NODE) == [fits, third]
    assert with_resizes([other, third], own, [too_large], NODE) == [other, third]
    assert with_resizes([third], own, [fits], NODE) == [third]  # it has ended

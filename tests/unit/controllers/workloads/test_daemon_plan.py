"""Daemon plans: which nodes get pods, and a rolling update replayed node by node."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.controllers.workloads.daemon_plan import (
    GENERATION_ANNOTATION,
    HASH_LABEL,
    DaemonPlan,
    Eligibility,
    compute_status,
    daemon_template,
    limits,
    plan_nodes,
    plan_update,
    pods_by_node,
    target_node,
    template_for_node,
)
from bridgehead.objects.apps import DaemonSet, DaemonSetSpec, RollingUpdate, Strategy
from bridgehead.objects.core import Node, NodeSpec, Pod, PodSpec, PodStatus, Taint
from bridgehead.objects.meta import Condition, ObjectMeta, PodTemplate

NOW = 2_000_000_000.0
OLD, NEW = "old", "new"


def daemon_set(
    surge: int | str = 0, unavailable: int | str = 1, *, type: str = "RollingUpdate", **spec: object
) -> DaemonSet:
    return DaemonSet(
        metadata=ObjectMeta(name="proxy", uid="ds", generation=2, annotations={GENERATION_ANNOTATION: "2"}),
        spec=DaemonSetSpec(
            template=PodTemplate(metadata=ObjectMeta(labels={"app": "proxy"}), spec=dict(spec)),
            update_strategy=Strategy(
                type=type, rolling_update=RollingUpdate(max_surge=surge, max_unavailable=unavailable)
            ),
        ),
    )


def node(name: str, *taints: Taint, **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels=labels), spec=NodeSpec(taints=taints))


def pod(
    name: str,
    on: str = "node1",
    *,
    hash: str = NEW,
    ready: bool = True,
    phase: str = "Running",
    terminating: bool = False,
    created: int = 0,
    bound: bool = True,
) -> Pod:
    conditions = (Condition(type="Ready", status="True", last_transition_time="2026-01-01T00:00:00Z"),) if ready else ()
    affinity = template_for_node(PodTemplate(), on).spec["affinity"]
    return Pod(
        metadata=ObjectMeta(
            name=name,
            uid=name,
            labels={HASH_LABEL: hash},
            creation_timestamp=f"2026-01-01T00:00:{created:02}Z",
            deletion_timestamp="2026-01-01T01:00:00Z" if terminating else None,
        ),
        spec=PodSpec(node_name=on if bound else "", affinity=affinity),
        status=PodStatus(phase=phase, conditions=conditions),
    )


def eligibility(owner: DaemonSet) -> Eligibility:
    return Eligibility(daemon_template(owner, NEW))


def plan(owner: DaemonSet, nodes: list[Node], pods: list[Pod]) -> DaemonPlan:
    return plan_nodes(owner, NEW, nodes, eligibility(owner), pods_by_node(pods), NOW)


def update(owner: DaemonSet, nodes: list[Node], pods: list[Pod]) -> DaemonPlan:
    return plan_update(owner, NEW, nodes, eligibility(owner), pods_by_node(pods), NOW)


def names(pods: tuple[Pod, ...]) -> list[str]:
    return sorted(one.metadata.name for one in pods)


# --- Templates -------------------------------------------------------------------------------------------


def test_daemon_pods_tolerate_node_conditions() -> None:
    template = daemon_template(daemon_set(), "h")
    assert [(t["key"], t["effect"]) for t in template.spec["tolerations"]] == [
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ]
    assert template.metadata.labels == {"app": "proxy", HASH_LABEL: "h", "pod-template-generation": "2"}
    host = daemon_template(daemon_set(hostNetwork=True), "h")
    assert host.spec["tolerations"][-1]["key"] == "node.kubernetes.io/network-unavailable"


def test_own_tolerations_are_kept_and_the_template_is_not_changed() -> None:
    mine = {"key": "dedicated", "operator": "Exists"}
    owner = daemon_set(tolerations=[mine])
    assert daemon_template(owner, "h").spec["tolerations"][0] == mine
    assert owner.spec.template.spec["tolerations"] == [mine]


def test_a_pod_is_bound_to_its_node_and_keeps_its_other_affinity() -> None:
    preferred = [{"weight": 1, "preference": {}}]
    template = PodTemplate(
        spec={
            "affinity": {
                "podAntiAffinity": {"x": 1},
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": preferred,
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": []}]},
                },
            }
        }
    )
    affinity = template_for_node(template, "node7").spec["affinity"]
    assert affinity["podAntiAffinity"] == {"x": 1}
    assert affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == preferred
    assert target_node(Pod(spec=PodSpec(affinity=affinity))) == "node7"


# --- Nodes -----------------------------------------------------------------------------------------------

CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
DEDICATED = Taint(key="dedicated", value="db", effect="NoSchedule")
LEAVING = Taint(key="leaving", effect="NoExecute")


@pytest.mark.parametrize(
    ("owner", "where", "expected"),
    [
        (daemon_set(), node("node1"), (True, True)),
        (daemon_set(), node("node1", CORDONED), (True, True)),
        (daemon_set(), node("node1", DEDICATED), (False, True)),
        (daemon_set(), node("node1", LEAVING), (False, False)),
        (daemon_set(nodeSelector={"disk": "ssd"}), node("node1"), (False, False)),
        (daemon_set(nodeSelector={"disk": "ssd"}), node("node1", disk="ssd"), (True, True)),
        (daemon_set(nodeName="node2"), node("node1"), (False, False)),
        (daemon_set(tolerations=[{"operator": "Exists"}]), node("node1", DEDICATED, LEAVING), (True, True)),
    ],
)
def test_eligible_nodes_match_selectors_and_taints(owner: DaemonSet, where: Node, expected: tuple[bool, bool]) -> None:
    assert eligibility(owner).of(where) == expected


def test_each_node_gets_one_pod() -> None:
    nodes = [node("node1"), node("node2"), node("node3", DEDICATED)]
    result = plan(daemon_set(), nodes, [pod("a", "node1")])
    assert result == DaemonPlan(create_on=("node2",))


@pytest.mark.parametrize(
    ("pods", "deleted"),
    [
        ([pod("a", created=1), pod("b", created=2)], ["b"]),
        ([pod("a", created=1, bound=False), pod("b", created=2)], ["a"]),
        ([pod("a", terminating=True), pod("b")], []),
        ([pod("a", phase="Failed")], ["a"]),
        ([pod("a", phase="Succeeded")], ["a"]),
        ([pod("a", phase="Failed", terminating=True)], []),
        ([pod("a", "gone", bound=False)], ["a"]),
        ([pod("a", "gone")], []),
        ([pod("a", "tainted")], ["a"]),
        ([pod("a", "dedicated")], []),
    ],
)
def test_surplus_pods_are_deleted(pods: list[Pod], deleted: list[str]) -> None:
    nodes = [node("node1"), node("tainted", LEAVING), node("dedicated", DEDICATED)]
    assert names(plan(daemon_set(), nodes, pods).delete) == deleted


def test_a_terminating_pod_delays_its_replacement() -> None:
    nodes = [node("node1")]
    assert plan(daemon_set(), nodes, [pod("a", terminating=True)]).create_on == ()
    assert plan(daemon_set(), nodes, [pod("a", terminating=True, phase="Failed")]).create_on == ("node1",)


def test_an_adopted_unscheduled_pod_is_kept() -> None:
    adopted = Pod(metadata=ObjectMeta(name="a", uid="a", labels={HASH_LABEL: NEW}))
    for result in (
        plan(daemon_set(), [node("node1")], [adopted]),
        plan(daemon_set(), [node("node1")], [adopted, pod("b")]),
    ):
        assert result.delete == ()


def test_failed_and_succeeded_pods_are_distinguished() -> None:
    result = plan(daemon_set(), [node("node1")], [pod("a", phase="Failed"), pod("b", phase="Succeeded")])
    assert (names(result.failed), names(result.succeeded)) == (["a"], ["b"])


def test_a_surge_allows_an_old_and_a_new_pod_on_a_node() -> None:
    owner, nodes = daemon_set(1, 0), [node("node1")]
    assert plan(owner, nodes, [pod("a", hash=OLD), pod("b", ready=False)]).delete == ()
    assert names(plan(owner, nodes, [pod("a", hash=OLD), pod("b")]).delete) == ["a"]
    assert names(plan(owner, nodes, [pod("a", hash=OLD, ready=False), pod("b", ready=False)]).delete) == ["a"]
    assert names(plan(owner, nodes, [pod("a"), pod("b", created=5)]).delete) == ["b"]


# --- Updates ---------------------------------------------------------------------------------------------

NODES = [node(f"node{i}") for i in range(1, 5)]


@pytest.mark.parametrize(
    ("surge", "unavailable", "nodes", "expected"),
    [(0, 1, 10, (0, 1)), (0, "25%", 10, (0, 3)), ("10%", 0, 11, (2, 0)), (0, 0, 10, (0, 1)), (0, "0%", 0, (0, 1))],
)
def test_limits_are_computed_from_max_unavailable_and_max_surge(
    surge: int | str, unavailable: int | str, nodes: int, expected: tuple[int, int]
) -> None:
    assert limits(daemon_set(surge, unavailable), nodes) == expected


def test_at_most_max_unavailable_old_pods_are_deleted() -> None:
    pods = [pod(f"p{i}", f"node{i}", hash=OLD) for i in range(1, 5)]
    assert names(update(daemon_set(0, 2), NODES, pods).delete) == ["p1", "p2"]
    pods[3] = pod("p4", "node4", hash=NEW, ready=False)
    assert names(update(daemon_set(0, 2), NODES, pods).delete) == ["p1"]
    assert update(daemon_set(0, 1), NODES, pods).delete == ()


def test_limits_beyond_the_nodes_are_those_of_the_nodes() -> None:
    pods = [pod(f"p{i}", f"node{i}", hash=OLD) for i in range(1, 5)]
    assert names(update(daemon_set(0, 2**31 - 1), NODES, pods).delete) == ["p1", "p2", "p3", "p4"]
    assert update(daemon_set(2**31 - 1, 0), NODES, pods) == DaemonPlan(create_on=("node1", "node2", "node3", "node4"))


def test_unavailable_old_pods_are_deleted_at_once() -> None:
    pods = [pod("p1", "node1", hash=OLD), *(pod(f"p{i}", f"node{i}", hash=OLD, ready=False) for i in (2, 3, 4))]
    assert names(update(daemon_set(0, 1), NODES, pods).delete) == ["p2", "p3", "p4"]


def test_a_node_without_a_pod_counts_as_unavailable() -> None:
    pods = [pod(f"p{i}", f"node{i}", hash=OLD) for i in (1, 2, 3)]
    assert update(daemon_set(0, 1), NODES, pods).delete == ()


def test_a_surge_creates_pods_before_deleting_old_ones() -> None:
    pods = [pod(f"p{i}", f"node{i}", hash=OLD) for i in range(1, 5)]
    assert update(daemon_set(2, 0), NODES, pods) == DaemonPlan(create_on=("node1", "node2"))
    pods.append(pod("n1", "node1", ready=False))
    assert update(daemon_set(2, 0), NODES, pods) == DaemonPlan(create_on=("node2",))
    pods[-1] = pod("n1", "node1")
    result = update(daemon_set(2, 0), NODES, pods)
    assert (result.create_on, names(result.delete)) == (("node2", "node3"), ["p1"])


@given(
    nodes=st.integers(1, 6),
    surge=st.integers(0, 3),
    unavailable=st.integers(0, 3),
    order=st.lists(st.integers(0, 2), max_size=60),
)
def test_a_rolling_update_respects_its_limits_and_completes(
    nodes: int, surge: int, unavailable: int, order: list[int]
) -> None:
    owner, where = daemon_set(surge, unavailable), [node(f"node{i}") for i in range(nodes)]
    max_surge, max_unavailable = limits(owner, nodes)
    pods = {f"p{i}": pod(f"p{i}", f"node{i}", hash=OLD) for i in range(nodes)}
    serial = 0

    def apply(step: DaemonPlan) -> bool:
        nonlocal serial
        for victim in step.delete:
            del pods[victim.metadata.name]
        for target in step.create_on:
            serial += 1
            pods[f"n{serial}"] = pod(f"n{serial}", target, ready=False)
        return bool(step.delete or step.create_on)

    def become_ready() -> bool:
        waiting = [one for one in pods.values() if not one.is_ready]
        if waiting:
            pods[waiting[0].metadata.name] = pod(waiting[0].metadata.name, waiting[0].spec.node_name)
        return bool(waiting)

    actors = [
        lambda: apply(plan(owner, where, [*pods.values()])),
        lambda: apply(update(owner, where, [*pods.values()])),
        become_ready,
    ]

    def check() -> None:
        served = {one.spec.node_name for one in pods.values() if one.is_ready}
        assert nodes - len(served) <= (0 if max_surge else max_unavailable)
        assert len(pods) <= nodes + max_surge

    for index in order:
        actors[index]()
        check()
    for _ in range(200):
        acted = [actor() for actor in actors]
        check()
        if not any(acted):
            break
    else:
        pytest.fail("the update never ends")
    assert {one.metadata.labels[HASH_LABEL] for one in pods.values()} == {NEW}
    assert len(pods) == nodes


def test_the_order_of_nodes_and_pods_does_not_matter() -> None:
    pods = [
        pod("a", "node1", hash=OLD),
        pod("b", "node1", created=3),
        pod("c", "node2", phase="Failed"),
        pod("d", "node3", terminating=True),
        pod("e", "gone", bound=False),
    ]
    expected = plan(daemon_set(), NODES, pods)
    for seed in range(100):
        shuffled = pods[:]
        random.Random(seed).shuffle(shuffled)
        result = plan(daemon_set(), NODES, shuffled)
        assert (result.create_on, names(result.delete)) == (expected.create_on, names(expected.delete)), f"seed {seed}"


def test_the_status_counts_nodes() -> None:
    owner = daemon_set()
    nodes = [node("node1"), node("node2"), node("node3"), node("node4", DEDICATED)]
    pods = [pod("a", "node1"), pod("b", "node2", hash=OLD, ready=False), pod("d", "node4")]
    status = compute_status(owner, NEW, nodes, eligibility(owner), pods_by_node(pods), NOW, observed=True)
    assert (status.desired_number_scheduled, status.current_number_scheduled, status.number_misscheduled) == (3, 2, 1)
    assert (status.number_ready, status.number_available, status.number_unavailable) == (1, 1, 2)
    assert (status.updated_number_scheduled, status.observed_generation) == (1, 2)

"""Victims of a pod of higher priority: which pods, on which node, and why there are none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from bridgehead.controllers.scheduling.cluster_state import PodFacts
from bridgehead.controllers.scheduling.node_filters import NodeFilters, Nomination
from bridgehead.controllers.scheduling.placement import Placement, schedule_pod
from bridgehead.controllers.scheduling.preemption import Preemption, plan_preemption
from bridgehead.objects.core import Pod
from bridgehead.objects.policy import PodDisruptionBudget

from .test_placement import HOST, ZONE, World, node, pod, required, term


def ranked(name: str, priority: int, cpu: str = "1", started: int = 0, **spec: Any) -> Pod:
    """A pod with a priority, that started at a minute."""
    made = pod(name, cpu=cpu, priority=priority, **spec)
    status = msgspec.structs.replace(made.status, start_time=f"2026-01-01T00:{started:02}:00Z")
    return msgspec.structs.replace(made, status=status)


def budget(allowed: int, app: str | None = "a", disrupted: Sequence[str] = ()) -> PodDisruptionBudget:
    selector = {"matchLabels": {"app": app}} if app else {}
    status = {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")}
    body = {"metadata": {"name": "b", "namespace": "default"}, "spec": {"selector": selector}, "status": status}
    return msgspec.convert(body, PodDisruptionBudget)


def preempt(world: World, one: Pod, *budgets: PodDisruptionBudget, nominated: str = "") -> Preemption:
    facts, nodes = PodFacts.of(one), world.state.nodes()
    filters = NodeFilters(facts, nodes, world.namespaces)
    placement = schedule_pod(filters)
    assert not placement.node_name
    return plan_preemption(facts, nodes, placement.refused, budgets, filters.refusals_in_state, nominated)


def names(preemption: Preemption) -> tuple[str, ...]:
    return (preemption.node_name, *(victim.pod.metadata.name for victim in preemption.victims))


def world(*pods: Pod, nodes: int = 1) -> World:
    """Nodes with 4 CPUs; the name of a pod begins with that of its node."""
    made = World(*(node("nmo"[index]) for index in range(nodes)))
    for one in pods:
        made.put(one, one.metadata.name[0])
    return made


@pytest.mark.parametrize(
    ("pods", "wanted", "expected"),
    [
        # The victims are the least important pods, and no more than needed.
        ([ranked("n1", 1), ranked("n2", 2), ranked("n3", 3), ranked("n4", 4)], ranked("p", 9), ("n", "n1")),
        ([ranked("n1", 1), ranked("n2", 2), ranked("n3", 3), ranked("n4", 4)], ranked("p", 9, "2"), ("n", "n2", "n1")),
        # Pods that started last are victims first, if priorities are equal.
        ([ranked("n1", 1, "2", 5), ranked("n2", 1, "2", 6)], ranked("p", 9, "2"), ("n", "n2")),
        # A small victim does not help a large pod; a large one that is more important does.
        ([ranked("n1", 1, "500m"), ranked("n2", 2, "3500m")], ranked("p", 9, "3"), ("n", "n2")),
        # Pods of the same priority are never victims.
        ([ranked("n1", 9, "2"), ranked("n2", 1, "2")], ranked("p", 9, "1"), ("n", "n2")),
        # Ports, and the anti-affinity of a victim.
        (
            [ranked("n1", 0, containers=[{"name": "a", "ports": [{"containerPort": 80, "hostPort": 80}]}])],
            ranked("p", 1, containers=[{"name": "a", "ports": [{"containerPort": 80, "hostPort": 80}]}]),
            ("n", "n1"),
        ),
        (
            [ranked("n1", 0, **required("podAntiAffinity", term(HOST)))],
            ranked("p", 1, labels={"app": "a"}),
            ("n", "n1"),
        ),
    ],
)
def test_victims_on_one_node(pods: list[Pod], wanted: Pod, expected: tuple[str, ...]) -> None:
    assert names(preempt(world(*pods), wanted)) == expected


@pytest.mark.parametrize(
    ("on_n", "on_m", "expected"),
    [
        # The lowest priority of the most important victim.
        ([(5, "4")], [(4, "2"), (4, "2")], "m"),
        # Then the smallest sum, which counts each pod.
        ([(5, "2"), (4, "2")], [(5, "2"), (3, "2")], "m"),
        ([(5, "4")], [(5, "2"), (-9, "2")], "n"),
    ],
)
def test_the_node_whose_victims_matter_least(
    on_n: list[tuple[int, str]], on_m: list[tuple[int, str]], expected: str
) -> None:
    pods = [
        ranked(f"{where}{index}", priority, cpu)
        for where, listed in (("n", on_n), ("m", on_m))
        for index, (priority, cpu) in enumerate(listed)
    ]
    assert preempt(world(*pods, nodes=2), ranked("p", 9, "4")).node_name == expected


def test_the_node_whose_important_victims_started_last() -> None:
    made = world(ranked("n1", 1, "4", 5), ranked("m1", 1, "4", 6), ranked("o1", 1, "4", 6), nodes=3)
    assert names(preempt(made, ranked("p", 9))) == ("m", "m1")


def test_budgets_are_respected_where_that_is_possible() -> None:
    labelled: dict[str, Any] = {"labels": {"app": "a"}}
    one_node = world(ranked("n1", 1, "2", **labelled), ranked("n2", 5, "2"))
    assert names(preempt(one_node, ranked("p", 9, "2"), budget(0))) == ("n", "n2")
    assert names(preempt(one_node, ranked("p", 9, "2"), budget(1))) == ("n", "n1")
    assert names(preempt(one_node, ranked("p", 9, "2"), budget(0, None))) == ("n", "n1")
    assert names(preempt(one_node, ranked("p", 9, "2"), budget(0, disrupted=["n1"]))) == ("n", "n1")
    assert names(preempt(one_node, ranked("p", 9, "4"), budget(0))) == ("n", "n2", "n1")
    two_nodes = world(ranked("n1", 1, "4", **labelled), ranked("m1", 5, "4"), nodes=2)
    assert names(preempt(two_nodes, ranked("p", 9), budget(0))) == ("m", "m1")
    # A selector that an absent label matches protects no pod without labels.
    absent = {"spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}}
    missing = msgspec.convert({"metadata": {"name": "b", "namespace": "default"}, **absent}, PodDisruptionBudget)
    assert names(preempt(world(ranked("n1", 1, "2"), ranked("n2", 5, "2")), ranked("p", 9, "2"), missing))[1:] == (
        "n1",
    )
    # The first of two pods uses up what the budget allows.
    both = world(ranked("n1", 1, "2", 1, **labelled), ranked("n2", 1, "2", 2, **labelled))
    assert names(preempt(both, ranked("p", 9, "2"), budget(1))) == ("n", "n1")


def test_why_nothing_is_preempted() -> None:
    full = world(ranked("n1", 5, "4"))
    none = "0/1 nodes are available: 1 "
    assert preempt(full, ranked("p", 5)).message == f"{none}No preemption victims found for incoming pod."
    assert preempt(full, ranked("p", 9, "5")).message == f"{none}Preemption is not helpful for scheduling."
    mixed = world(ranked("n1", 9, "3"), ranked("n2", 1, "1"))
    assert preempt(mixed, ranked("p", 9, "2")).message == f"{none}Insufficient cpu."
    never = preempt(full, ranked("p", 9, preemptionPolicy="Never"))
    assert (never.message, never.is_eligible) == ("not eligible due to preemptionPolicy=Never.", False)


def test_a_pod_waits_for_its_victims_to_end() -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    victim = ranked("n1", 1, "4")
    ending = msgspec.structs.replace(
        victim,
        metadata=msgspec.structs.replace(victim.metadata, deletion_timestamp="2026-01-01T00:00:00Z"),
        status=msgspec.convert({"conditions": [condition]}, type(victim.status)),
    )
    waiting = ranked("p", 9)
    found = preempt(world(ending), waiting, nominated="n")
    assert (found.message, found.is_eligible) == ("not eligible due to a terminating pod on the nominated node.", False)
    assert names(preempt(world(victim), waiting, nominated="n")) == ("n", "n1")
    assert names(preempt(world(victim), waiting, nominated="gone")) == ("n", "n1")


def test_the_nominated_node_comes_before_a_better_one() -> None:
    made = world(ranked("n1", 1, "2"), nodes=2)

    def choose(nominated: str) -> str:
        facts = PodFacts.of(ranked("p", 9, "2"))
        return schedule_pod(NodeFilters(facts, made.state.nodes(), made.namespaces), nominated).node_name

    assert [choose(name) for name in ("", "n", "gone")] == ["m", "n", "m"]
    made.put(ranked("n2", 1, "1"), "n")
    assert choose("n") == "m"


def test_the_room_of_a_nominated_pod_is_kept_from_pods_of_no_higher_priority() -> None:
    made = world(nodes=2)
    nominations = [nominate(ranked("u", 5, "3"), "n"), nominate(ranked("l", 5, "3"), "gone")]

    def fitting(one: Pod) -> str:
        filters = NodeFilters(PodFacts.of(one), made.state.nodes(), made.namespaces, nominations=nominations)
        return "".join(name for name in "nm" if not filters.refusals(name))

    assert fitting(ranked("p", 1, "2")) == "m"
    assert fitting(ranked("p", 5, "2")) == "m"
    assert fitting(ranked("p", 6, "2")) == "nm"
    assert fitting(ranked("u", 5, "2")) == "nm"
    assert made.state.nodes()["n"].requested["cpu"] == 0


def nominate(one: Pod, where: str) -> Nomination:
    return Nomination(PodFacts.of(one), where)


def test_affinity_needs_a_pod_that_runs_not_one_that_is_nominated() -> None:
    made = World(node("n"), node("m"))
    needed = nominate(ranked("q", 5, labels={"app": "a"}), "n")
    follower = ranked("p", 1, **required("podAffinity", term(HOST)))

    def choose(*nominations: Nomination) -> Placement:
        facts = PodFacts.of(follower)
        return schedule_pod(
            NodeFilters(facts, made.state.nodes(), made.namespaces, nominations=nominations), nominated="n"
        )

    text = "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."
    assert choose().message == choose(needed).message == text
    made.put(needed.facts.pod, "n")
    assert choose().node_name == "n"


def test_a_nominated_pod_counts_on_its_own_node_only() -> None:
    zones = [node(name, zone="z") for name in "nm"]
    made = World(*zones)
    repelled = nominate(ranked("q", 5, labels={"app": "a"}), "n")
    pod_of_zone = ranked("p", 1, **required("podAntiAffinity", term(ZONE)))
    filters = NodeFilters(PodFacts.of(pod_of_zone), made.state.nodes(), made.namespaces, nominations=[repelled])
    assert [bool(filters.refusals(name)) for name in "nm"] == [True, False]


def test_victims_make_room_for_the_nominated_pods_too() -> None:
    made = world(ranked("n1", 1, "1"), ranked("n2", 2, "3"))
    urgent = nominate(ranked("u", 9, "1"), "n")
    one = PodFacts.of(ranked("p", 9, "1"))

    def victims(*nominations: Nomination) -> tuple[str, ...]:
        filters = NodeFilters(one, made.state.nodes(), made.namespaces, nominations=nominations)
        refused = schedule_pod(filters).refused
        return names(plan_preemption(one, filters.nodes, refused, [], filters.refusals_in_state))

    assert victims() == ("n", "n1")
    assert victims(urgent) == ("n", "n2")

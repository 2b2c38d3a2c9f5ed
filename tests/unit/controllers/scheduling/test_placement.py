"""Placement: every filter with its text, every score by its preference, and the sums of requests."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.controllers.scheduling.cluster_state import ClusterState, PodFacts
from bridgehead.controllers.scheduling.filters import Refusal
from bridgehead.controllers.scheduling.node_filters import NodeFilters
from bridgehead.controllers.scheduling.placement import Placement, schedule_pod
from bridgehead.objects.core import Node, Pod
from bridgehead.objects.host_ports import host_ports
from bridgehead.objects.pod_resources import pod_requests

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def node(
    name: str,
    *,
    zone: str = "",
    labels: dict[str, str] | None = None,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: str = "110",
    taints: list[dict[str, str]] | None = None,
    unschedulable: bool = False,
) -> Node:
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods}
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "labels": {HOST: name, **({ZONE: zone} if zone else {}), **(labels or {})},
            },
            "spec": {"taints": taints or [], "unschedulable": unschedulable},
            "status": {"allocatable": {key: value for key, value in allocatable.items() if value}},
        },
        Node,
    )


def pod(
    name: str,
    *,
    cpu: str = "",
    memory: str = "",
    port: int = 0,
    host_ip: str = "",
    owner: str = "",
    labels: dict[str, str] | None = None,
    requests: dict[str, str] | None = None,
    **spec: Any,
) -> Pod:
    wanted = {"cpu": cpu, "memory": memory, **(requests or {})}
    container: dict[str, Any] = {
        "name": "a",
        "resources": {"requests": {key: value for key, value in wanted.items() if value}},
    }
    if port:
        container["ports"] = [{"containerPort": port, "hostPort": port, "hostIP": host_ip}]
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": name,
                "labels": labels or {},
                "ownerReferences": [reference] if owner else [],
            },
            "spec": {"containers": [container], **spec},
        },
        Pod,
    )


class World:
    """Nodes, and pods where they were put."""

    namespaces = {"default": {"team": "a"}, "other": {"team": "b"}}  # noqa: RUF012

    def __init__(self, *nodes: Node) -> None:
        self.state = ClusterState()
        for one in nodes:
            self.state.set_node(one)

    def put(self, one: Pod, where: str) -> World:
        self.state.add_pod(PodFacts.of(one), where)
        return self

    def choose(self, one: Pod) -> str:
        """Return the chosen node, or the message."""
        placement = schedule_pod(NodeFilters(PodFacts.of(one), self.state.nodes(), self.namespaces))
        return placement.node_name or placement.message

    def schedule(self, one: Pod) -> str:
        where = self.choose(one)
        self.put(one, where)
        return where


# --- Filters ---------------------------------------------------------------------------------------------


def constraint(key: str = ZONE, skew: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
        **more,
    }


def term(key: str = HOST, app: str = "a", **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def required(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def named(*names: str) -> dict[str, Any]:
    expression = {"key": "metadata.name", "operator": "In", "values": list(names)}
    terms = {"nodeSelectorTerms": [{"matchFields": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


APP = {"app": "a"}
# refusal -> (world of one node, pod that can't go there, message)
REFUSED: dict[Refusal, tuple[World, Pod, str]] = {
    Refusal.UNSCHEDULABLE: (World(node("n", unschedulable=True)), pod("p"), "1 node(s) were unschedulable."),
    Refusal.TAINT: (
        World(node("n", taints=[{"key": "dedicated", "value": "db", "effect": "NoSchedule"}])),
        pod("p"),
        "1 node(s) had untolerated taint {dedicated: db}.",
    ),
    Refusal.OTHER_NODE: (
        World(node("n")),
        pod("p", **named("m")),
        "1 node(s) didn't satisfy plugin(s) [NodeAffinity].",
    ),
    Refusal.AFFINITY: (
        World(node("n")),
        pod("p", nodeSelector={"disk": "ssd"}),
        "1 node(s) didn't match Pod's node affinity/selector.",
    ),
    Refusal.PORTS: (
        World(node("n")).put(pod("q", port=80), "n"),
        pod("p", port=80),
        "1 node(s) didn't have free ports for the requested pod ports.",
    ),
    Refusal.RESOURCE: (
        World(node("n")).put(pod("q", cpu="3500m"), "n"),
        pod("p", cpu="501m", memory="9Gi"),
        "1 Insufficient cpu, 1 Insufficient memory.",
    ),
    Refusal.TOO_MANY_PODS: (World(node("n", pods="1")).put(pod("q"), "n"), pod("p"), "1 Too many pods."),
    Refusal.SPREAD: (
        World(node("n", zone="a", unschedulable=False)).put(pod("q", labels=APP), "n"),
        pod("p", labels=APP, topologySpreadConstraints=[constraint(minDomains=2)]),
        "1 node(s) didn't match pod topology spread constraints.",
    ),
    Refusal.SPREAD_LABEL: (
        World(node("n")),
        pod("p", labels=APP, topologySpreadConstraints=[constraint()]),
        "1 node(s) didn't match pod topology spread constraints (missing required label).",
    ),
    Refusal.POD_AFFINITY: (
        World(node("n")),
        pod("p", **required("podAffinity", term())),
        "1 node(s) didn't match pod affinity rules.",
    ),
    Refusal.POD_ANTI_AFFINITY: (
        World(node("n")).put(pod("q", labels=APP), "n"),
        pod("p", **required("podAntiAffinity", term())),
        "1 node(s) didn't match pod anti-affinity rules.",
    ),
    Refusal.EXISTING_ANTI_AFFINITY: (
        World(node("n")).put(pod("q", **required("podAntiAffinity", term())), "n"),
        pod("p", labels=APP),
        "1 node(s) didn't satisfy existing pods anti-affinity rules.",
    ),
}


VOLUMES = {Refusal.VOLUME_NODE, Refusal.NO_VOLUME, Refusal.LOST_VOLUME}
USING: dict[str, Any] = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}


@pytest.mark.parametrize(
    "refusal", sorted(set(Refusal) - VOLUMES - {Refusal.CLAIM_IN_USE}, key=str), ids=lambda refusal: refusal.name
)
def test_every_rejection_has_a_reason(refusal: Refusal) -> None:
    world, refused, text = REFUSED[refusal]
    assert world.choose(refused) == f"0/1 nodes are available: {text}"


@pytest.mark.parametrize("refusal", sorted(VOLUMES, key=str), ids=lambda refusal: refusal.name)
def test_volumes_reject_nodes(refusal: Refusal) -> None:
    world = World(node("n"), node("m"))
    facts = PodFacts.of(pod("p"))
    placement = schedule_pod(NodeFilters(facts, world.state.nodes(), {}, volumes=lambda one: refusal))
    none = "0/2 nodes are available: "
    assert placement.message == f"{none}2 {refusal.value}."
    assert all(reason.is_permanent for reasons in placement.refused.values() for reason in reasons)
    only_m = NodeFilters(
        facts, world.state.nodes(), {}, volumes=lambda one: None if one.metadata.name == "m" else refusal
    )
    assert schedule_pod(only_m).node_name == "m"


def test_a_claim_for_one_pod_is_in_use_on_every_node() -> None:
    world = World(node("n"), node("m")).put(pod("q", **USING), "n")
    owner = World(node("n")).put(pod("q", volumes=[{"name": "data", "ephemeral": {}}]), "n")

    def choose(surroundings: World, claim: str) -> Placement:
        facts = PodFacts.of(pod("p", **USING))
        return schedule_pod(NodeFilters(facts, surroundings.state.nodes(), {}, exclusive={claim}))

    text = f"0/2 nodes are available: 2 {Refusal.CLAIM_IN_USE.value}."
    assert choose(world, "data").message.startswith(text)
    assert choose(world, "p-data").node_name
    assert not choose(owner, "q-data").node_name


# Changes that make the same pod fit, for each refusal that depends on the pod.
ACCEPTED = {
    "tolerated": (
        REFUSED[Refusal.TAINT][0],
        pod("p", tolerations=[{"key": "dedicated", "operator": "Exists"}]),
    ),
    "cordoned and tolerated": (
        REFUSED[Refusal.UNSCHEDULABLE][0],
        pod("p", tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
    ),
    "named": (World(node("n")), pod("p", **named("n"))),
    "another port": (REFUSED[Refusal.PORTS][0], pod("p", port=81)),
    "exactly what is left": (REFUSED[Refusal.RESOURCE][0], pod("p", cpu="500m")),
    "the first of a group": (World(node("n")), pod("p", labels=APP, **required("podAffinity", term()))),
    "near its friend": (
        World(node("n")).put(pod("q", labels=APP), "n"),
        pod("p", **required("podAffinity", term())),
    ),
    "another namespace": (
        World(node("n")).put(pod("q", labels=APP), "n"),
        pod("p", **required("podAntiAffinity", term(namespaces=["other"]))),
    ),
    "unknown capacity": (World(node("n", cpu="", memory="", pods="")), pod("p", cpu="100", memory="1Ti")),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_fitting_pods_are_accepted(case: str) -> None:
    world, accepted = ACCEPTED[case]
    assert world.choose(accepted) == "n"


def test_resources_that_a_node_does_not_report_cannot_be_requested() -> None:
    assert World(node("n")).choose(pod("p", requests={"example.com/gpu": "1"})) == (
        "0/1 nodes are available: 1 Insufficient example.com/gpu."
    )


def test_reasons_are_counted_and_sorted_as_in_kubernetes() -> None:
    world = World(
        node("n1", taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]),
        node("n2", cpu="1"),
        node("n3", cpu="1", memory="1Gi"),
    )
    placement = schedule_pod(NodeFilters(PodFacts.of(pod("p", cpu="2", memory="2Gi")), world.state.nodes(), {}))
    assert placement.message == (
        "0/3 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint "
        "{node-role.kubernetes.io/control-plane: }, 2 Insufficient cpu."
    )


def test_without_nodes_the_reason_states_it() -> None:
    assert World().choose(pod("p")) == "no nodes available to schedule pods"


@pytest.mark.parametrize(
    ("taken", "wanted", "conflict"),
    [("", "10.0.0.1", True), ("10.0.0.1", "", True), ("10.0.0.1", "10.0.0.2", False), ("0.0.0.0", "10.0.0.1", True)],
)
def test_host_ports_conflict_by_address(taken: str, wanted: str, conflict: bool) -> None:
    world = World(node("n")).put(pod("q", port=80, host_ip=taken), "n")
    assert (world.choose(pod("p", port=80, host_ip=wanted)) != "n") is conflict


def test_pods_are_spread_evenly_over_zones() -> None:
    world = World(node("a1", zone="a"), node("a2", zone="a"), node("b1", zone="b"))
    spread: dict[str, Any] = {"topologySpreadConstraints": [constraint()]}
    where = [world.schedule(pod(f"p{i}", labels=APP, **spread)) for i in range(6)]
    assert Counter(name[0] for name in where) == {"a": 3, "b": 3}


def test_match_label_keys_restrict_a_constraint_to_its_revision() -> None:
    world = World(node("a", zone="a"), node("b", zone="b"))
    for i in range(3):
        world.put(pod(f"old{i}", labels={"app": "a", "hash": "1"}), "a")
    keyed: dict[str, Any] = {"topologySpreadConstraints": [constraint(matchLabelKeys=["hash"])]}
    where = [world.schedule(pod(f"p{i}", labels={"app": "a", "hash": "2"}, **keyed)) for i in range(4)]
    assert Counter(where) == {"a": 2, "b": 2}


def test_anti_affinity_puts_each_pod_on_its_own_node() -> None:
    world = World(*(node(f"n{i}") for i in range(3)))
    lonely = required("podAntiAffinity", term())
    where = [world.choose(pod("p", labels=APP, **lonely))]
    where = [world.schedule(pod(f"p{i}", labels=APP, **lonely)) for i in range(3)]
    assert sorted(where) == ["n0", "n1", "n2"]
    assert world.choose(pod("p9", labels=APP, **lonely)).startswith(
        "0/3 nodes are available: 3 node(s) didn't match pod anti"
    )


# --- Scores ----------------------------------------------------------------------------------------------


def preferred(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def test_replicas_of_one_controller_are_spread() -> None:
    world = World(*(node(f"n{i}") for i in range(3)))
    where = [world.schedule(pod(f"p{i}", owner="rs")) for i in range(100)]
    assert sorted(Counter(where).values()) == [33, 33, 34]


def test_spreading_counts_pods_of_the_same_controller_only() -> None:
    world = World(node("n1"), node("n2"))
    for i in range(3):
        world.put(pod(f"x{i}", owner="other", cpu="10m", memory="1Mi"), "n1")
    world.put(pod("mine", owner="rs", cpu="10m", memory="1Mi"), "n2")
    assert world.choose(pod("p", owner="rs")) == "n1"


PREFERENCES = {
    "node affinity": pod(
        "p",
        **preferred(
            "nodeAffinity",
            {"weight": 50, "preference": {"matchExpressions": [{"key": "good", "operator": "Exists"}]}},
        ),
    ),
    "pod affinity": pod("p", **preferred("podAffinity", {"weight": 50, "podAffinityTerm": term(app="friend")})),
    "pod anti-affinity": pod("p", **preferred("podAntiAffinity", {"weight": 50, "podAffinityTerm": term(app="foe")})),
    "taint to avoid": pod("p"),
    "soft spread": pod(
        "p",
        labels={"app": "foe"},
        topologySpreadConstraints=[
            constraint(HOST, whenUnsatisfiable="ScheduleAnyway", labelSelector={"matchLabels": {"app": "foe"}})
        ],
    ),
    "more room": pod("p", cpu="1", memory="1Gi"),
}


@pytest.mark.parametrize("what", PREFERENCES)
def test_preferences_decide_between_fitting_nodes(what: str) -> None:
    avoided = [{"key": "slow", "effect": "PreferNoSchedule"}] if what == "taint to avoid" else []
    # The better node has the later name: a tie would go to the other one.
    world = World(node("a", taints=avoided), node("b", labels={"good": "1"}))
    small: dict[str, Any] = {"cpu": "1m", "memory": "1Mi"}
    world.put(pod("friend", labels={"app": "friend"}, **small), "b")
    world.put(pod("foe", labels={"app": "foe"}, **small), "a")
    if what == "more room":
        world.put(pod("big", cpu="2", memory="4Gi"), "a").put(pod("little", **small), "b")
    assert world.choose(PREFERENCES[what]) == "b"


def test_fewer_taints_count_by_their_share_of_the_most() -> None:
    """A node with half of the taints is half as bad, which weighs less than a preferred label."""
    slow, loud = ({"key": key, "effect": "PreferNoSchedule"} for key in ("slow", "loud"))
    world = World(node("a", taints=[slow]), node("b", taints=[slow, loud], labels={"good": "1"}))
    assert world.choose(PREFERENCES["node affinity"]) == "b"
    assert world.choose(pod("p")) == "a"


@pytest.mark.parametrize(
    ("relations", "where", "chosen"),
    [
        (preferred("podAffinity", {"weight": 50, "podAffinityTerm": term(app="p")}), "b", "b"),
        (preferred("podAntiAffinity", {"weight": 50, "podAffinityTerm": term(app="p")}), "a", "b"),
        (preferred("podAntiAffinity", {"weight": 50, "podAffinityTerm": term(app="other")}), "a", "a"),
        (required("podAffinity", term(app="p")), "b", "b"),
    ],
)
def test_preferences_of_existing_pods_count_too(relations: dict[str, Any], where: str, chosen: str) -> None:
    """Without them the nodes are equal, and the first one is chosen."""
    small: dict[str, Any] = {"cpu": "1m", "memory": "1Mi"}
    world = World(node("a"), node("b"))
    world.put(pod("there", **small, **relations), where).put(pod("plain", **small), "b" if where == "a" else "a")
    assert world.choose(pod("p", labels={"app": "p"}, **small)) == chosen


@pytest.mark.parametrize(
    ("more", "fits"),
    [
        ({}, False),
        ({"namespaces": ["default"]}, False),
        ({"namespaces": ["other"]}, True),
        ({"namespaceSelector": {}}, False),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, True),
        ({"namespaces": ["default"], "namespaceSelector": {"matchLabels": {"team": "b"}}}, False),
    ],
)
def test_affinity_terms_select_namespaces(more: dict[str, Any], fits: bool) -> None:
    world = World(node("n")).put(pod("q", labels=APP), "n")
    assert (world.choose(pod("p", **required("podAntiAffinity", term(**more)))) == "n") is fits


def test_the_order_of_nodes_does_not_matter() -> None:
    nodes = [node(f"n{i}", zone="ab"[i % 2]) for i in range(6)]
    expected: list[str] = []
    for seed in range(30):
        random.Random(seed).shuffle(nodes)
        world = World(*nodes)
        where = [world.schedule(pod(f"p{i}", owner=f"rs{i % 3}", cpu="100m")) for i in range(12)]
        expected = expected or where
        assert where == expected, f"seed {seed}"


# --- Sums ------------------------------------------------------------------------------------------------


def container(cpu: str, *, sidecar: bool = False) -> dict[str, Any]:
    always = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **always}


@pytest.mark.parametrize(
    ("init", "main", "expected"),
    [
        ([], ["1", "2"], 3000),
        ([container("5")], ["1", "2"], 5000),
        ([container("2"), container("2")], ["1"], 2000),
        ([container("1", sidecar=True)], ["1"], 2000),
        ([container("1", sidecar=True), container("3")], ["1"], 4000),
        ([container("3"), container("1", sidecar=True)], ["1"], 3000),
    ],
)
def test_requests_of_a_pod_include_init_containers_and_overhead(
    init: list[dict[str, Any]], main: list[str], expected: int
) -> None:
    one = pod("p", initContainers=init, containers=[container(cpu) for cpu in main])
    assert pod_requests(one.spec)["cpu"] == expected


def test_requests_of_the_pod_as_a_whole_and_overhead() -> None:
    whole: dict[str, Any] = {"resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}}
    one = pod("p", containers=[container("4"), container("1")], overhead={"cpu": "250m", "pods": 1}, **whole)
    assert pod_requests(one.spec) == {"cpu": 1750, "memory": 1 << 30, "pods": 1}


def test_container_ports_without_a_host_port_do_not_conflict() -> None:
    one = pod(
        "p", containers=[{"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]}]
    )
    assert host_ports(one.spec) == {("", "TCP", 8081)}


@given(st.lists(st.tuples(st.integers(0, 7), st.sampled_from(["a", "b", "c", ""])), max_size=60))
def test_incremental_sums_equal_fresh_ones(moves: list[tuple[int, str]]) -> None:
    """Pods are added, moved and removed in any order; the sums equal a fresh count."""
    pods = [pod(f"p{i}", cpu=f"{i}00m", port=i, owner=f"rs{i % 2}", **required("podAntiAffinity")) for i in range(8)]
    state = ClusterState()
    state.set_node(node("a"))
    where: dict[int, str] = {}
    for index, target in moves:
        if target:
            state.add_pod(PodFacts.of(pods[index]), target)
            where[index] = target
        else:
            state.remove_pod(f"p{index}")
            where.pop(index, None)
    fresh = ClusterState()
    fresh.set_node(node("a"))
    for index, target in where.items():
        fresh.add_pod(PodFacts.of(pods[index]), target)
    for name in "abc":
        state.set_node(node(name))
        fresh.set_node(node(name))
        one, other = state.nodes()[name], fresh.nodes()[name]
        assert set(one.pods) == set(other.pods)
        assert +one.requested == +other.requested
        assert (+one.ports, +one.owners) == (+other.ports, +other.owners)
        assert +one.weight == +other.weight


def test_a_removed_node_takes_no_pods_and_returns_with_its_pods() -> None:
    world = World(node("n", cpu="1")).put(pod("q", cpu="1"), "n")
    world.state.remove_node("n")
    assert world.choose(pod("p")) == "no nodes available to schedule pods"
    world.state.set_node(node("n", cpu="1"))
    assert world.choose(pod("p", cpu="1")) == "0/1 nodes are available: 1 Insufficient cpu."

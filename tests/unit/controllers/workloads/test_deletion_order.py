"""The pods that go first when a ReplicaSet shrinks: one rule after the other, whatever the order of the input."""

import random

import pytest

from bridgehead.controllers.workloads.deletion_order import DELETION_COST, choose_victims, deletion_cost
from bridgehead.objects.core import ContainerStatus, Pod, PodSpec, PodStatus
from bridgehead.objects.meta import Condition, ObjectMeta
from bridgehead.objects.times import format_time

NOW = 2_000_000_000.0


def pod(
    name: str,
    *,
    node: str = "node1",
    phase: str = "Running",
    ready_for: float | None = 1000.0,
    age: float = 2000.0,
    cost: str = "",
    restarts: int = 0,
) -> Pod:
    conditions: tuple[Condition, ...] = ()
    if ready_for is not None:
        conditions = (Condition(type="Ready", status="True", last_transition_time=format_time(NOW - ready_for)),)
    return Pod(
        metadata=ObjectMeta(
            name=name,
            uid=name,
            annotations={DELETION_COST: cost} if cost else {},
            creation_timestamp=format_time(NOW - age),
        ),
        spec=PodSpec(node_name=node),
        status=PodStatus(
            phase=phase,
            conditions=conditions,
            container_statuses=(ContainerStatus(name="c", restart_count=restarts),),
        ),
    )


# Each row: a pod that goes, a pod that stays, and nothing else differs.
RULES = {
    "unassigned before assigned": (pod("b", node=""), pod("a")),
    "pending before running": (pod("b", phase="Pending"), pod("a")),
    "pending before unknown": (pod("b", phase="Pending"), pod("a", phase="Unknown")),
    "unknown before running": (pod("b", phase="Unknown"), pod("a")),
    "not ready before ready": (pod("b", ready_for=None), pod("a")),
    "cheap before dear": (pod("b", cost="-5"), pod("a")),
    "ready for short before ready for long": (pod("b", ready_for=10.0), pod("a", ready_for=1000.0)),
    "more restarts before fewer": (pod("b", restarts=3), pod("a", restarts=1)),
    "young before old": (pod("b", age=1100.0), pod("a", age=9000.0)),
    "same class of age: by uid": (pod("a", age=2001.0), pod("b", age=2000.0)),
    "not ready beats cost": (pod("b", ready_for=None, cost="100"), pod("a", cost="1")),
    "cost beats age": (pod("b", cost="1", age=9000.0, ready_for=9000.0), pod("a", cost="2", age=5.0, ready_for=5.0)),
}


@pytest.mark.parametrize("rule", RULES)
def test_pods_are_ranked_for_deletion_as_in_kubernetes(rule: str) -> None:
    victim, survivor = RULES[rule]
    for pods in ([victim, survivor], [survivor, victim]):
        assert choose_victims(pods, pods, 1, NOW) == [victim]


def test_a_pod_on_the_fuller_node_is_deleted_first() -> None:
    pods = [pod("z1", node="crowded"), pod("z2", node="crowded"), pod("a", node="lonely")]
    assert choose_victims(pods, pods, 1, NOW)[0].spec.node_name == "crowded"


def test_pods_of_sibling_replica_sets_count_for_their_node() -> None:
    mine = [pod("a", node="node1"), pod("b", node="node2")]
    siblings = [pod("x", node="node2")]
    assert choose_victims(mine, [*mine, *siblings], 1, NOW) == [mine[1]]


def test_ranking_does_not_depend_on_order_and_keeps_its_input() -> None:
    pods = [*(one for pair in RULES.values() for one in pair)]
    pods = [
        Pod(
            metadata=ObjectMeta(
                name=f"p{i}",
                uid=f"p{i}",
                annotations=p.metadata.annotations,
                creation_timestamp=p.metadata.creation_timestamp,
            ),
            spec=p.spec,
            status=p.status,
        )
        for i, p in enumerate(pods)
    ]
    expected = choose_victims(pods, pods, 10, NOW)
    for seed in range(100):
        shuffled = pods[:]
        random.Random(seed).shuffle(shuffled)
        before = shuffled[:]
        assert choose_victims(shuffled, shuffled, 10, NOW) == expected, f"seed {seed}"
        assert shuffled == before


@pytest.mark.parametrize(
    ("text", "cost"),
    [("", 0), ("5", 5), ("-7", -7), ("+5", 0), ("05", 0), ("x", 0), ("2147483647", 2147483647), ("2147483648", 0)],
)
def test_deletion_cost_ranks_pods(text: str, cost: int) -> None:
    assert deletion_cost(pod("a", cost=text)) == cost

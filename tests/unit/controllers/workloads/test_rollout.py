"""Rollout maths: tables for the rounding, and whole rolling updates replayed on a cluster of numbers."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridgehead.controllers.workloads.rollout import (
    DESIRED_REPLICAS,
    LAST_APPLIED,
    MAX_REPLICAS,
    REVISION,
    REVISION_HISTORY,
    Scale,
    find_new,
    is_saturated,
    is_scaling_event,
    limits,
    new_annotations,
    next_revision,
    plan_cleanup,
    plan_olds,
    plan_rolling,
    plan_scaling,
    replicas_annotations,
    replicas_of_new,
    resolve_fenceposts,
    same_template,
    scaled_value,
)
from bridgehead.objects.apps import (
    Deployment,
    DeploymentSpec,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicaSetStatus,
    RollingUpdate,
    Strategy,
)
from bridgehead.objects.meta import ObjectMeta, PodTemplate

LARGEST = 2**31 - 1


def template(image: str, **labels: str) -> PodTemplate:
    return PodTemplate(metadata=ObjectMeta(labels=labels), spec={"containers": [{"name": "a", "image": image}]})


def deployment(
    replicas: int = 3,
    surge: int | str = "25%",
    unavailable: int | str = "25%",
    *,
    image: str = "new",
    type: str = "RollingUpdate",
    annotations: dict[str, str] | None = None,
    history: int = 10,
) -> Deployment:
    return Deployment(
        metadata=ObjectMeta(name="web", namespace="default", uid="d", annotations=annotations or {}),
        spec=DeploymentSpec(
            replicas=replicas,
            template=template(image),
            strategy=Strategy(type=type, rolling_update=RollingUpdate(max_surge=surge, max_unavailable=unavailable)),
            revision_history_limit=history,
        ),
    )


def replica_set(
    name: str,
    replicas: int,
    available: int | None = None,
    *,
    image: str = "",
    revision: int = 0,
    noted: tuple[int, int] | None = None,
    created: str = "",
    actual: int | None = None,
) -> ReplicaSet:
    annotations = {REVISION: str(revision)} if revision else {}
    if noted:
        annotations |= {DESIRED_REPLICAS: str(noted[0]), MAX_REPLICAS: str(noted[1])}
    available = replicas if available is None else available
    return ReplicaSet(
        metadata=ObjectMeta(
            name=name, uid=name, annotations=annotations, creation_timestamp=created or f"2026-01-01T00:00:0{name[-1]}Z"
        ),
        spec=ReplicaSetSpec(replicas=replicas, template=template(image or name, **{"pod-template-hash": name})),
        status=ReplicaSetStatus(
            replicas=replicas if actual is None else actual, available_replicas=available, ready_replicas=available
        ),
    )


def sizes(scales: list[Scale]) -> dict[str, int]:
    return {scale.replica_set.metadata.name: scale.replicas for scale in scales}


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [
        (0, 10, 0, 0),
        (3, 10, 3, 3),
        ("25%", 10, 3, 2),
        ("25%", 4, 1, 1),
        ("0%", 10, 0, 0),
        ("100%", 7, 7, 7),
        ("29%", 100, 29, 29),
    ],
)
def test_percentages_are_resolved(value: int | str, total: int, up: int, down: int) -> None:
    assert scaled_value(value, total, round_up=True, default=0) == up
    assert scaled_value(value, total, round_up=False, default=0) == down


@pytest.mark.parametrize("value", ["", "x", "5", "5.5%", "-5%"])
def test_invalid_percentages_are_refused(value: str) -> None:
    with pytest.raises(ValueError, match="IntOrString"):
        scaled_value(value, 10, round_up=True, default=0)


@pytest.mark.parametrize(
    ("surge", "unavailable", "desired", "expected"),
    [
        (None, None, 1, (1, 0)),
        (None, None, 3, (1, 0)),
        (None, None, 4, (1, 1)),
        (None, None, 10, (3, 2)),
        (0, 0, 10, (0, 1)),
        ("0%", "0%", 10, (0, 1)),
        ("0%", "10%", 3, (0, 1)),
        (1, 0, 10, (1, 0)),
    ],
)
def test_max_surge_and_max_unavailable_are_resolved_together(
    surge: int | str | None, unavailable: int | str | None, desired: int, expected: tuple[int, int]
) -> None:
    assert resolve_fenceposts(surge, unavailable, desired) == expected


def test_unavailable_replicas_are_bounded_and_recreate_has_no_limits() -> None:
    assert limits(deployment(2, 1, 5)) == (1, 2)
    assert limits(deployment(2, 1, 1, type="Recreate")) == (0, 0)


# --- Finding, revisions, annotations ---------------------------------------------------------------------


def test_templates_are_compared_without_the_hash() -> None:
    assert same_template(template("a", app="x", **{"pod-template-hash": "1"}), template("a", app="x"))
    assert not same_template(template("a", app="x"), template("a", app="y"))
    assert not same_template(template("a"), template("b"))


def test_the_oldest_of_equal_replica_sets_is_the_new_one_in_any_order() -> None:
    sets = [replica_set(f"rs{i}", 1, image="new") for i in range(5)] + [replica_set("rs9", 1, image="old")]
    for seed in range(20):
        random.Random(seed).shuffle(sets)
        found = find_new(deployment(), sets)
        assert found is not None
        assert found.metadata.name == "rs0", f"seed {seed}"


def test_a_new_replica_set_inherits_annotations_except_revision_and_history() -> None:
    owner = deployment(3, annotations={"team": "a", REVISION: "7", LAST_APPLIED: "{}"})
    assert new_annotations(owner, None, 2) == {
        "team": "a",
        REVISION: "2",
        DESIRED_REPLICAS: "3",
        MAX_REPLICAS: "4",
    }


def test_a_rollback_raises_the_revision_and_records_the_former_ones() -> None:
    old = replica_set("rs1", 0, revision=1)
    assert new_annotations(deployment(), old, 3) == {REVISION: "3", REVISION_HISTORY: "1"}
    again = msgspec.structs.replace(
        old, metadata=msgspec.structs.replace(old.metadata, annotations={REVISION: "3", REVISION_HISTORY: "1"})
    )
    assert new_annotations(deployment(), again, 5)[REVISION_HISTORY] == "1,3"
    assert new_annotations(deployment(), again, 2) == {REVISION: "3", REVISION_HISTORY: "1"}


def test_the_revision_history_annotation_is_bounded() -> None:
    old = replica_set("rs1", 0, revision=99999)
    full = {REVISION: "99999", REVISION_HISTORY: ",".join(str(i) for i in range(10000, 10333))}
    old = msgspec.structs.replace(old, metadata=msgspec.structs.replace(old.metadata, annotations=full))
    history = new_annotations(deployment(), old, 100000)[REVISION_HISTORY]
    assert len(history) <= 2000
    assert history.endswith(",99999")


def test_the_next_revision_ignores_invalid_numbers() -> None:
    strange = replica_set("rs1", 0)
    strange.metadata.annotations[REVISION] = "x"
    assert next_revision([strange, replica_set("rs2", 0, revision=4)]) == 5
    assert next_revision([]) == 1


def test_cleanup_deletes_the_oldest_empty_replica_sets_over_the_limit() -> None:
    olds = [
        replica_set("rs3", 0, revision=3),
        replica_set("rs1", 0, revision=1),
        replica_set("rs2", 0, revision=2, actual=1),
        replica_set("rs4", 0, revision=4),
    ]
    assert [rs.metadata.name for rs in plan_cleanup(deployment(history=1), olds)] == ["rs1", "rs3"]
    assert plan_cleanup(deployment(history=2**31 - 1), olds) == []
    assert plan_cleanup(deployment(history=4), olds) == []


# --- Sizes -----------------------------------------------------------------------------------------------


def test_scaling_with_one_active_replica_set_changes_only_that_one() -> None:
    new, old = replica_set("rs2", 3, noted=(3, 4)), replica_set("rs1", 0)
    assert is_scaling_event(deployment(5), [new, old])
    assert sizes(plan_scaling(deployment(5), new, [old])) == {"rs2": 5}
    assert not is_scaling_event(deployment(3), [new, old])


@pytest.mark.parametrize("surge", [0, 1, "100%", LARGEST])
def test_the_largest_deployment_gives_no_replica_set_more_than_the_api_accepts(surge: int | str) -> None:
    large = deployment(LARGEST, surge, 0)
    assert limits(large) == (0, 1)
    assert replicas_annotations(large) == {DESIRED_REPLICAS: str(LARGEST), MAX_REPLICAS: str(LARGEST)}
    assert replicas_of_new(large, [], 0) == LARGEST
    olds = [replica_set("rs1", 3, noted=(4, 5)), replica_set("rs2", 1, noted=(4, 5))]
    scaled = sizes(plan_scaling(large, None, olds))
    assert sum(scaled.values()) == LARGEST
    # A rollout goes on, one pod at a time.
    assert sizes(plan_olds(large, replica_set("rs9", 0), [replica_set("rs1", LARGEST)])) == {"rs1": LARGEST - 1}


def test_scaling_to_zero_and_back_uses_the_newest_replica_set() -> None:
    old, older = replica_set("rs2", 0), replica_set("rs1", 0)
    assert sizes(plan_scaling(deployment(4), None, [older, old])) == {"rs2": 4}


def test_old_replica_sets_are_scaled_down_when_the_new_one_is_complete() -> None:
    new = replica_set("rs2", 3, noted=(3, 4))
    assert is_saturated(deployment(3), new)
    assert sizes(plan_scaling(deployment(3), new, [replica_set("rs1", 2)])) == {"rs1": 0}


# Example of Kubernetes' documentation: 10 replicas, maxSurge 3, maxUnavailable 2, an image that can't be pulled; then
# 15.
def test_proportional_scaling_as_documented() -> None:
    new, old = replica_set("rs2", 5, 0, noted=(10, 13)), replica_set("rs1", 8, noted=(10, 13))
    assert sizes(plan_scaling(deployment(15, 3, 2), new, [old])) == {"rs1": 11, "rs2": 7}


@pytest.mark.parametrize(
    ("desired", "before", "after"),
    [
        # name -> size, with 10 replicas and a surge of 3 before
        (20, {"rs1": 8, "rs2": 5}, {"rs1": 14, "rs2": 9}),
        (5, {"rs1": 8, "rs2": 5}, {"rs1": 5, "rs2": 3}),
        (0, {"rs1": 8, "rs2": 5}, {"rs1": 0, "rs2": 0}),
        (10, {"rs1": 8, "rs2": 5}, {"rs1": 8, "rs2": 5}),
        (12, {"rs1": 4, "rs2": 4, "rs3": 5}, {"rs1": 4, "rs2": 5, "rs3": 6}),
    ],
)
def test_proportional_scaling_is_bounded_and_keeps_proportions(
    desired: int, before: dict[str, int], after: dict[str, int]
) -> None:
    *olds, new = [replica_set(name, size, 0, noted=(10, 13)) for name, size in before.items()]
    result = sizes(plan_scaling(deployment(desired, 3, 2), new, olds))
    assert sum(result.values()) == (desired + 3 if desired else 0)
    assert result == after


@given(
    desired=st.integers(0, 50),
    surge=st.integers(0, 10),
    before=st.lists(st.integers(0, 30), min_size=2, max_size=6),
)
@example(desired=1, surge=1, before=[1, 1, 1, 1])
def test_proportional_scaling_distributes_the_whole_difference(desired: int, surge: int, before: list[int]) -> None:
    owner = deployment(desired, surge, 1)
    *olds, new = [replica_set(f"rs{i}", size, 0, noted=(1, sum(before))) for i, size in enumerate(before)]
    result = sizes(plan_scaling(owner, new, olds))
    assert all(size >= 0 for size in result.values())
    if len([size for size in before if size]) > 1:
        total, allowed = sum(result.values()), (desired + limits(owner)[0] if desired else 0)
        # The remainder of rounding is taken from the largest alone, as in Kubernetes, and it may not have enough.
        largest = f"rs{before.index(max(before))}"
        assert total == allowed or (total > allowed and result[largest] == 0)


def test_unhealthy_old_replicas_are_scaled_down_first() -> None:
    new = replica_set("rs3", 2, 2)
    olds = [replica_set("rs1", 4, 4), replica_set("rs2", 4, 0)]
    owner = deployment(8, 2, 2)
    result = sizes(plan_olds(owner, new, olds))
    assert result == {"rs2": 0}


# --- A whole rolling update ------------------------------------------------------------------------------


@dataclass
class Pods:
    """A replica set, the pods it really has (True: available), and the status last written for it."""

    name: str
    image: str
    replicas: int
    pods: list[bool] = field(default_factory=list)
    seen_replicas: int = 0
    seen_available: int = 0

    def observed(self) -> ReplicaSet:
        return replica_set(
            self.name, self.replicas, self.seen_available, image=self.image, actual=self.seen_replicas, revision=1
        )


class World:
    """One Deployment in the middle of an update. Controllers and pods act when the test decides, in any order."""

    def __init__(self, owner: Deployment, old_sizes: list[int]) -> None:
        self.owner = owner
        self.sets = [
            Pods(f"rs{i}", f"old{i}", size, [True] * size, size, size) for i, size in enumerate(old_sizes, start=1)
        ]
        surge, unavailable = limits(owner)
        self.most = max(owner.spec.replicas + surge, sum(old_sizes))
        self.fewest = min(owner.spec.replicas - unavailable, sum(old_sizes))

    def deployment_controller(self) -> bool:
        observed = [pods.observed() for pods in self.sets]
        new = find_new(self.owner, observed)
        if new is None:
            size = replicas_of_new(self.owner, observed, 0)
            self.sets.append(Pods("rs9", "new", size))
            return True
        scales = plan_rolling(self.owner, new, [rs for rs in observed if rs is not new])
        for scale in scales:
            one = next(pods for pods in self.sets if pods.name == scale.replica_set.metadata.name)
            assert one.replicas != scale.replicas, "a step that changes nothing"
            one.replicas = scale.replicas
        self.check()
        return bool(scales)

    def replica_set_controller(self) -> bool:
        changed = False
        for one in self.sets:
            surplus = len(one.pods) - one.replicas
            changed |= surplus != 0
            one.pods.sort()
            one.pods = one.pods[surplus:] if surplus > 0 else one.pods + [False] * -surplus
        self.check()
        return changed

    def status_writer(self) -> bool:
        changed = False
        for one in self.sets:
            now = (len(one.pods), sum(one.pods))
            changed |= now != (one.seen_replicas, one.seen_available)
            one.seen_replicas, one.seen_available = now
        return changed

    def kubelet(self) -> bool:
        """One pod becomes available."""
        for one in self.sets:
            if False in one.pods:
                one.pods[one.pods.index(False)] = True
                return True
        return False

    def check(self) -> None:
        total = sum(len(one.pods) for one in self.sets)
        available = sum(sum(one.pods) for one in self.sets)
        assert total <= self.most, f"{total} pods, {self.most} allowed"
        assert available >= self.fewest, f"{available} available, {self.fewest} needed"


LIMIT = st.integers(0, 4) | st.sampled_from(["0%", "10%", "25%", "50%", "100%"])


@given(
    desired=st.integers(0, 9),
    surge=LIMIT,
    unavailable=LIMIT,
    extra=st.lists(st.integers(0, 3), max_size=2),
    order=st.lists(st.integers(0, 3), max_size=60),
)
def test_a_rolling_update_respects_its_limits_and_completes(
    desired: int, surge: int | str, unavailable: int | str, extra: list[int], order: list[int]
) -> None:
    world = World(deployment(desired, surge, unavailable), [desired, *extra])
    actors = [world.deployment_controller, world.replica_set_controller, world.status_writer, world.kubelet]
    for index in order:
        actors[index]()
    # All actors act from here, whatever happened so far, until none of them has anything to do.
    for _ in range(500):
        acted = [actor() for actor in actors]
        if not any(acted):
            break
    else:
        pytest.fail("the rollout never ends")
    assert {one.image: len(one.pods) for one in world.sets if one.pods} == ({"new": desired} if desired else {})


@given(
    desired=st.integers(1, 9),
    surge=LIMIT,
    unavailable=LIMIT,
    healthy=st.integers(0, 9),
    order=st.lists(st.integers(0, 3), max_size=60),
)
def test_a_broken_update_keeps_enough_old_pods(
    desired: int, surge: int | str, unavailable: int | str, healthy: int, order: list[int]
) -> None:
    """Only `healthy` of the new pods become available: the rollout stops and keeps the required old ones."""
    world = World(deployment(desired, surge, unavailable), [desired])
    actors = [world.deployment_controller, world.replica_set_controller, world.status_writer]
    for index in order:
        if index < 3:
            actors[index]()
        elif sum(sum(one.pods) for one in world.sets if one.image == "new") < healthy:
            world.kubelet()
        world.check()


def test_a_complete_rollout_plans_nothing() -> None:
    new, old = replica_set("rs2", 3, image="new"), replica_set("rs1", 0)
    assert plan_rolling(deployment(3), new, [old]) == []
    assert replicas_annotations(deployment(3)) == {DESIRED_REPLICAS: "3", MAX_REPLICAS: "4"}

"""Adoption and release, creation from templates, and slow start."""

from __future__ import annotations

import asyncio
import random

import pytest

from bridgehead.client.errors import ApiError, ClientError, Forbidden, Unreachable
from bridgehead.controllers.adoption import adopters, sort_claims
from bridgehead.controllers.workloads.daemonset_controller import FIRST_BACKOFF, LONGEST_BACKOFF, FailedPods
from bridgehead.controllers.workloads.pod_control import is_namespace_terminating, pod_from_template, slow_start
from bridgehead.objects.apps import ReplicaSet, ReplicaSetSpec
from bridgehead.objects.core import Pod, PodSpec
from bridgehead.objects.kinds import REPLICA_SETS
from bridgehead.objects.meta import LabelSelector, ObjectMeta, OwnerReference, PodTemplate
from bridgehead.objects.selectors import compile_selector

SELECTOR = LabelSelector(match_labels={"app": "a"})


def replica_set(*, leaving: bool = False) -> ReplicaSet:
    deletion = "2026-01-01T00:00:00Z" if leaving else None
    return ReplicaSet(
        metadata=ObjectMeta(name="web", namespace="default", uid="me", deletion_timestamp=deletion),
        spec=ReplicaSetSpec(selector=SELECTOR),
    )


def pod(name: str, owner: str = "", *, app: str = "a", terminating: bool = False, namespace: str = "default") -> Pod:
    references: tuple[OwnerReference, ...] = ()
    if owner:
        references = (OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="x", uid=owner, controller=True),)
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=name,
            labels={"app": app},
            owner_references=references,
            deletion_timestamp="2026-01-01T00:00:00Z" if terminating else None,
        )
    )


# owner, its labels, terminating -> what becomes of it for an owner that stays, and for one that leaves
CLAIMS = [
    (("me", "a", False), ("owned", "owned")),
    (("me", "a", True), ("owned", "owned")),
    (("me", "b", False), ("release", "")),
    (("me", "b", True), ("release", "")),
    (("other", "a", False), ("", "")),
    (("other", "b", False), ("", "")),
    (("", "a", False), ("adopt", "")),
    (("", "a", True), ("", "")),
    (("", "b", False), ("", "")),
]


def test_candidates_are_sorted_independently_of_their_order() -> None:
    pods = {name: pod(name, *case[:1], app=case[1], terminating=case[2]) for name, (case, _) in _named()}
    for leaving in (False, True):
        for seed in range(20):
            shuffled = list(pods.values())
            random.Random(seed).shuffle(shuffled)
            claims = sort_claims(replica_set(leaving=leaving), compile_selector(SELECTOR), shuffled)
            for name, (case, expected) in _named():
                group = next(
                    (p for p in ("owned", "adopt", "release") if pods[name] in getattr(claims, p)),
                    "",
                )
                assert group == expected[leaving], f"{case}, seed {seed}"


def _named() -> list[tuple[str, tuple[tuple[str, str, bool], tuple[str, str]]]]:
    return [(f"p{i}", row) for i, row in enumerate(CLAIMS)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, pod("p"), True),
        (pod("p"), pod("p"), False),
        (pod("p", app="b"), pod("p"), True),
        (pod("p", "me"), pod("p"), True),
        (None, pod("p", "me"), False),
        (None, pod("p", terminating=True), False),
    ],
)
def test_only_relevant_changes_enqueue_possible_owners(old: Pod | None, new: Pod, expected: bool) -> None:
    assert adopters([replica_set()], old, new) == ([replica_set().key] if expected else [])


def test_only_owners_of_the_namespace_adopt() -> None:
    assert adopters([replica_set()], None, pod("p"))
    assert not adopters([replica_set()], None, pod("p", namespace="other"))
    assert not adopters([replica_set()], None, pod("p", app="b"))


def test_a_pod_has_the_fields_of_its_template() -> None:
    template = PodTemplate(metadata=ObjectMeta(labels={"app": "a"}, annotations={"note": "x"}), spec={"containers": []})
    assert pod_from_template(REPLICA_SETS, replica_set(), template) == {
        "metadata": {
            "generateName": "web-",
            "namespace": "default",
            "labels": {"app": "a"},
            "annotations": {"note": "x"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "web",
                    "uid": "me",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {"containers": []},
    }


# --- Slow start ------------------------------------------------------------------------------------------


async def test_batches_double() -> None:
    running, batches = 0, []

    async def create(_index: int) -> None:
        nonlocal running
        running += 1
        await asyncio.sleep(0)
        if running:
            batches.append(running)
            running = 0

    assert await slow_start(20, create) == (20, None)
    assert batches == [1, 2, 4, 8, 5]


async def test_zero_pods_create_nothing() -> None:
    async def create(_index: int) -> None:
        raise AssertionError("called")

    assert await slow_start(0, create) == (0, None)


@pytest.mark.parametrize(("broken", "tried", "successes"), [(0, 1, 0), (2, 3, 2), (3, 7, 6)])
async def test_a_failure_stops_after_its_batch(broken: int, tried: int, successes: int) -> None:
    calls = []
    error = Unreachable("no answer")

    async def create(index: int) -> None:
        calls.append(index)
        if index == broken:
            raise error

    assert await slow_start(100, create) == (successes, error)
    assert calls == list(range(tried))


async def test_an_unexpected_exception_is_raised() -> None:
    async def create(_index: int) -> None:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        await slow_start(3, create)


def refusal(*causes: dict[str, str]) -> ClientError:
    error: ApiError = Forbidden(403, "Forbidden", "no", {"causes": list(causes)})
    return error


def test_creation_in_a_terminating_namespace_is_no_failure() -> None:
    assert is_namespace_terminating(refusal({"reason": "NamespaceTerminating"}))
    assert not is_namespace_terminating(refusal({"reason": "Other"}))
    assert not is_namespace_terminating(refusal())
    assert not is_namespace_terminating(Unreachable("no answer"))


# --- Failed daemons --------------------------------------------------------------------------------------


def test_a_failing_daemon_pod_is_replaced_with_back_off() -> None:
    now = 0.0
    failures = FailedPods(lambda: now)
    one = Pod(spec=PodSpec(node_name="node1"))
    assert failures.wait("ds", one) == 0
    delays = []
    for _ in range(12):
        delays.append(failures.wait("ds", one))
        now += delays[-1]
        assert failures.wait("ds", one) == 0
    assert delays == [min(FIRST_BACKOFF * 2**i, LONGEST_BACKOFF) for i in range(12)]
    assert failures.wait("ds", Pod(spec=PodSpec(node_name="node2"))) == 0
    now += 2 * LONGEST_BACKOFF + 1
    assert failures.wait("ds", one) == 0
    assert failures.wait("ds", one) == FIRST_BACKOFF

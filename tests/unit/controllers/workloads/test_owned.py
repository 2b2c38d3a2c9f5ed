"""The index of owned objects, and reading one's own writes."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.client.informer_cache import InformerCache
from bridgehead.controllers.read_your_writes import Latest
from bridgehead.controllers.workloads.owned import OwnedIndex
from bridgehead.objects.apps import ReplicaSet
from bridgehead.objects.core import Pod
from bridgehead.objects.meta import ObjectKey, ObjectMeta, OwnerReference

KEY = ObjectKey("default", "web")


def pod(name: str, owner: str = "", namespace: str = "default", version: str = "1") -> Pod:
    references = (OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="x", uid=owner, controller=True),)
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=name,
            resource_version=version,
            owner_references=references if owner else (),
        )
    )


def version(number: int) -> ReplicaSet:
    return ReplicaSet(metadata=ObjectMeta(name="web", namespace="default", uid="u", resource_version=str(number)))


def names(pods: list[Pod]) -> set[str]:
    return {one.metadata.name for one in pods}


def test_candidates_are_owned_pods_and_orphans_of_the_namespace() -> None:
    store: Any = InformerCache[Pod]("pods")
    store.put(pod("early", "me"))
    index = OwnedIndex(store)
    for one in (pod("mine", "me"), pod("theirs", "other"), pod("orphan"), pod("far", namespace="far")):
        store.put(one)
    owner = ReplicaSet(metadata=ObjectMeta(name="web", namespace="default", uid="me"))
    assert names(index.of("me")) == {"early", "mine"}
    assert names(index.candidates(owner)) == {"early", "mine", "orphan"}
    store.put(pod("orphan", "me", version="2"))
    store.remove(ObjectKey("default", "early"))
    assert names(index.of("me")) == {"mine", "orphan"}
    assert index.of("nobody") == []


@pytest.mark.parametrize(
    ("seen", "written", "expected"),
    [([5], [7], 7), ([5], [5], 5), ([5, 7], [6], 7), ([5], [7, 9], 9)],
)
def test_the_newer_of_observed_and_written_counts_is_used(seen: list[int], written: list[int], expected: int) -> None:
    store: Any = InformerCache[ReplicaSet]("replicasets")
    latest = Latest(store)
    for number in seen:
        store.put(version(number))
    for number in written:
        latest.remember(version(number))
    assert latest.get(KEY) == version(expected)


def test_a_written_count_is_forgotten_when_it_is_observed_or_deleted() -> None:
    store: Any = InformerCache[ReplicaSet]("replicasets")
    latest = Latest(store)
    store.put(version(5))
    latest.remember(version(7))
    store.put(version(6))
    assert latest.of(version(6)) == version(7)
    store.put(version(8))
    assert latest.get(KEY) == version(8)
    latest.remember(version(9))
    store.remove(KEY)
    assert latest.get(KEY) is None
    store.put(version(10))
    assert latest.get(KEY) == version(10)

"""Expectations: what was asked for blocks until it was seen, failed, or expired."""

import random

from bridgehead.controllers.workloads.expectations import EXPIRY, Expectations, observe_pod_change
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import DAEMON_SETS, REPLICA_SETS
from bridgehead.objects.meta import ObjectKey, ObjectMeta, OwnerReference

KEY = ObjectKey("default", "web")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def pod(name: str, *, terminating: bool = False, kind: str = "ReplicaSet") -> Pod:
    owner = OwnerReference(api_version="apps/v1", kind=kind, name="web", uid="rs", controller=True)
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=f"uid-{name}",
            owner_references=(owner,),
            deletion_timestamp="2026-01-01T00:00:00Z" if terminating else None,
        )
    )


def test_creations_and_deletions_must_all_be_observed() -> None:
    expectations = Expectations(Clock())
    assert expectations.met(KEY)
    expectations.expect(KEY, creations=2, deletions=["a", "b"])
    expectations.created(KEY)
    expectations.deleted(KEY, "a")
    expectations.deleted(KEY, "a")
    assert not expectations.met(KEY)
    expectations.created(KEY)
    assert not expectations.met(KEY)
    expectations.deleted(KEY, "b")
    assert expectations.met(KEY)


def test_zero_expectations_are_fulfilled_at_once() -> None:
    expectations = Expectations(Clock())
    expectations.expect(KEY)
    assert expectations.met(KEY)


def test_more_events_than_expected_are_accepted() -> None:
    expectations = Expectations(Clock())
    expectations.expect(KEY, creations=1, deletions=["a"])
    expectations.created(KEY, 3)
    expectations.deleted(KEY, "a")
    assert expectations.met(KEY)


def test_lost_events_expire() -> None:
    clock = Clock()
    expectations = Expectations(clock)
    expectations.expect(KEY, creations=1)
    clock.now += EXPIRY
    assert not expectations.met(KEY)
    clock.now += 1
    assert expectations.met(KEY)


def test_pod_events_lower_expectations_in_any_order() -> None:
    events = [
        (None, pod("new")),
        (pod("marked"), pod("marked", terminating=True)),
        (pod("removed"), None),
        (pod("other"), pod("other")),
    ]
    for seed in range(24):
        random.Random(seed).shuffle(events)
        expectations = Expectations(Clock())
        expectations.expect(KEY, creations=1, deletions=["uid-marked", "uid-removed"])
        for old, new in events:
            assert observe_pod_change(expectations, REPLICA_SETS, old, new) == {KEY}
        assert expectations.met(KEY), f"seed {seed}"


def test_a_changed_pod_does_not_count_as_created() -> None:
    expectations = Expectations(Clock())
    expectations.expect(KEY, creations=1)
    observe_pod_change(expectations, REPLICA_SETS, pod("a"), pod("a"))
    assert not expectations.met(KEY)


def test_pods_of_other_kinds_are_ignored() -> None:
    expectations = Expectations(Clock())
    assert observe_pod_change(expectations, DAEMON_SETS, None, pod("a")) == set()

"""Revisions of a workload: the present one, the next number, the history limit."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from bridgehead.controllers.workloads.daemon_plan import HASH_LABEL
from bridgehead.controllers.workloads.history import (
    new_revision,
    revision_data,
    sort_history,
    surplus_revisions,
)
from bridgehead.objects.apps import ControllerRevision, DaemonSet, DaemonSetSpec
from bridgehead.objects.kinds import DAEMON_SETS
from bridgehead.objects.meta import ObjectMeta, PodTemplate


def daemon_set(image: str = "a:1", limit: int = 10) -> DaemonSet:
    meta = ObjectMeta(name="proxy", namespace="n", uid="u", annotations={"kubernetes.io/change-cause": "why"})
    template = PodTemplate(
        metadata=ObjectMeta(labels={"app": "proxy"}), spec={"containers": [{"name": "a", "image": image}]}
    )
    return DaemonSet(metadata=meta, spec=DaemonSetSpec(template=template, revision_history_limit=limit))


def revision(image: str, number: int, hash: str = "") -> ControllerRevision:
    made = new_revision(DAEMON_SETS, daemon_set(image), number, HASH_LABEL, hash or image.replace(":", ""))
    return msgspec.convert(made, ControllerRevision)


def test_a_revision_is_a_patch_with_the_whole_template() -> None:
    made = new_revision(DAEMON_SETS, daemon_set(), 3, HASH_LABEL, "abc")
    assert made["metadata"]["name"] == "proxy-abc"
    assert made["metadata"]["labels"] == {"app": "proxy", HASH_LABEL: "abc"}
    assert made["metadata"]["annotations"] == {"kubernetes.io/change-cause": "why"}
    assert made["metadata"]["ownerReferences"][0]["controller"]
    assert (made["revision"], made["data"]["spec"]["template"]["$patch"]) == (3, "replace")
    assert made["data"] == revision_data(daemon_set())


def test_the_patch_has_the_order_of_gos_maps() -> None:
    """`kubectl rollout undo` and others compare it with their own encoding byte by byte."""

    def keys_of(value: object) -> Iterator[list[str]]:
        if isinstance(value, dict):
            yield list(value)
        for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from keys_of(child)

    found = list(keys_of(revision_data(daemon_set())))
    assert any(len(keys) > 2 for keys in found)
    assert all(keys == sorted(keys) for keys in found)


@pytest.mark.parametrize(
    ("revisions", "current", "old", "number"),
    [
        ([], None, [], 1),
        ([("a:1", 1)], 1, [], 1),
        ([("a:2", 2), ("a:0", 1)], None, [1, 2], 3),
        # An undo: the first revision is the present one again, and gets the next number.
        ([("a:1", 1), ("a:2", 2)], 1, [2], 3),
        # Two revisions with the present template: the newest one counts.
        ([("a:1", 1), ("a:2", 2), ("a:1", 3)], 3, [1, 2], 3),
    ],
)
def test_history(revisions, current, old, number) -> None:
    history = sort_history(daemon_set(), [revision(*one) for one in revisions])
    assert (history.current.revision if history.current else None) == current
    assert [one.revision for one in history.old] == old
    assert history.number == number


@pytest.mark.parametrize(
    ("limit", "live", "surplus"),
    [(3, set(), []), (1, set(), [1, 2]), (1, {"h1"}, [2, 3]), (0, {"h1", "h2", "h3"}, []), (2, {"h1"}, [2])],
)
def test_the_oldest_revisions_without_pods_go_first(limit, live, surplus) -> None:
    old = [revision(f"a:{number}", number, f"h{number}") for number in (1, 2, 3)]
    found = surplus_revisions(daemon_set(limit=limit), old, lambda one: one.metadata.labels[HASH_LABEL] in live)
    assert [one.revision for one in found] == surplus

"""The garbage collector's graph: which objects must be checked after a change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.controllers.garbage.owner_graph import Item, Ownership, OwnerStates
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import PODS
from bridgehead.objects.meta import ObjectKey, ObjectMeta, OwnerReference


def owner(uid: str, *, blocks: bool = False) -> OwnerReference:
    return OwnerReference(api_version="v1", kind="Pod", name=uid, uid=uid, block_owner_deletion=blocks)


def item(uid: str, *owners: str, **fields: bool) -> Item:
    return Item(PODS, ObjectKey("default", uid), uid, tuple(map(owner, owners)), **fields)


@pytest.fixture
def graph():
    return Ownership()


@pytest.mark.parametrize(
    ("finalizers", "is_deleting", "expected"),
    [
        ((), False, (False, False, False)),
        (("foregroundDeletion", "orphan"), False, (False, False, False)),
        ((), True, (True, False, False)),
        (("foregroundDeletion",), True, (True, True, False)),
        (("orphan",), True, (True, False, True)),
    ],
)
def test_finalizers_count_once_an_object_is_being_deleted(finalizers, is_deleting, expected):
    deleted = "2026-01-01T00:00:00Z" if is_deleting else None
    meta = ObjectMeta(name="a", namespace="n", uid="u", finalizers=finalizers, deletion_timestamp=deleted)
    found = Item.from_object(PODS, Pod(metadata=meta))
    assert (found.key, found.uid) == (ObjectKey("n", "a"), "u")
    assert (found.is_deleting, found.waits_for_dependents, found.orphans_dependents) == expected


def test_an_object_blocks_only_owners_that_it_names_so():
    dependent = Item(PODS, ObjectKey("n", "a"), "a", (owner("x", blocks=True), owner("y")))
    assert [dependent.is_blocked_by(uid) for uid in "xyz"] == [True, False, False]


def test_an_owner_is_of_the_same_namespace_or_of_none(graph):
    elsewhere, cluster = Item(PODS, ObjectKey("other", "e"), "e"), Item(PODS, ObjectKey("", "c"), "c")
    for known in (elsewhere, cluster, item("d")):
        graph.change(None, known)
    dependent = item("x", "e", "c", "d", "missing")
    found = [graph.owner(dependent, reference) for reference in dependent.owners]
    assert found == [None, cluster, item("d"), None]
    assert graph.change(None, item("y", "c", "d")) == set()
    assert graph.change(None, item("z", "c", "e")) == {"z"}


def test_states_of_owners():
    present, missing, waiting = map(owner, ("present", "missing", "waiting"))
    states = (
        OwnerStates()
        .with_owner(present, item("present"))
        .with_owner(missing, None)
        .with_owner(waiting, item("waiting", is_deleting=True, waits_for_dependents=True))
    )
    assert states == OwnerStates((present,), (missing,), (waiting,))


def test_an_object_is_checked_whose_owner_is_missing(graph):
    assert graph.change(None, item("set")) == set()
    assert graph.change(None, item("pod", "set")) == set()
    assert graph.change(None, item("stray", "set", "gone")) == {"stray"}


def test_dependents_are_checked_once_their_owner_is_gone(graph):
    graph.change(None, item("set"))
    for uid in ("b", "a"):
        graph.change(None, item(uid, "set"))
    assert graph.dependents("set") == [item("a", "set"), item("b", "set")]
    assert graph.change(item("set"), None) == {"a", "b"}
    assert graph.get("set") is None


def test_a_change_of_owners(graph):
    """An object that was adopted or released leaves the dependents of its former owner."""
    for uid in ("old", "new"):
        graph.change(None, item(uid))
    graph.change(None, item("pod", "old"))
    assert graph.change(item("pod", "old"), item("pod", "new")) == set()
    assert (graph.dependents("old"), graph.dependents("new")) == ([], [item("pod", "new")])
    graph.change(item("pod", "new"), item("pod"))
    assert graph.dependents("new") == []


def test_a_deletion_in_the_foreground(graph):
    """The owner and its dependents are checked when it begins, and the owner whenever a dependent changes or goes."""
    graph.change(None, item("set"))
    graph.change(None, item("pod", "set"))
    deleting = item("set", is_deleting=True, waits_for_dependents=True)
    assert graph.change(item("set"), deleting) == {"set", "pod"}
    assert graph.change(deleting, deleting) == set()
    assert graph.change(item("pod", "set"), item("pod", "set", is_deleting=True)) == {"pod", "set"}
    assert graph.change(item("pod", "set"), None) == {"set"}


def test_an_owner_that_orphans_its_dependents_is_checked(graph):
    orphaning = item("set", is_deleting=True, orphans_dependents=True)
    assert graph.change(None, orphaning) == {"set"}


def test_a_deletion_of_an_unknown_object(graph):
    assert graph.change(None, None) == set()
    assert graph.change(item("pod", "set"), None) == set()


UIDS = st.sampled_from("abcd")
CHANGES = st.lists(st.tuples(UIDS, st.none() | st.sets(UIDS)))


@given(CHANGES)
def test_dependents_are_those_that_name_the_owner(changes):
    """After any changes, the index gives the same result as a search through all objects."""
    graph = Ownership()
    now: dict[str, Item] = {}
    for uid, owners in changes:
        old = now.pop(uid, None)
        new = None if owners is None else item(uid, *sorted(owners))
        graph.change(old, new)
        if new is not None:
            now[uid] = new
    for uid in "abcd":
        assert graph.get(uid) == now.get(uid)
        expected = [now[one] for one in sorted(now) if any(owner.uid == uid for owner in now[one].owners)]
        assert graph.dependents(uid) == expected

"""The pure decisions about nodes, namespaces, taints and owners."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.controllers.garbage.owner_graph import Item, Ownership
from bridgehead.controllers.manager import CONTROLLERS, select_controllers
from bridgehead.controllers.namespaces.namespace_conditions import Remains, merge_conditions, plan_conditions
from bridgehead.controllers.nodes.eviction_time import NEVER, eviction_time
from bridgehead.controllers.nodes.node_health import next_heartbeat, plan_taints, plan_unknown_conditions
from bridgehead.objects.core import Node, NodeSpec, NodeStatus, Taint, Toleration
from bridgehead.objects.kinds import PODS
from bridgehead.objects.meta import Condition, ObjectKey, ObjectMeta, OwnerReference
from bridgehead.objects.taints import NOT_READY, UNREACHABLE, UNSCHEDULABLE
from bridgehead.objects.times import format_time

NOW = "2026-01-01T00:00:00Z"


def node(
    ready: str | None, *taints: Taint, unschedulable: bool = False, pressure: str = "", heartbeat: str = "1"
) -> Node:
    conditions = [Condition(type="Ready", status=ready, last_heartbeat_time=heartbeat)] if ready else []
    if pressure:
        conditions.append(Condition(type=pressure, status="True"))
    return Node(
        metadata=ObjectMeta(name="n", creation_timestamp=NOW),
        spec=NodeSpec(taints=taints, unschedulable=unschedulable),
        status=NodeStatus(conditions=tuple(conditions)),
    )


OTHER = Taint(key="example.com/mine", effect="NoSchedule", value="v")


@pytest.mark.parametrize(
    ("ill", "expected"),
    [
        (node("True"), None),
        (node("True", OTHER), None),
        (node("False"), [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]),
        (node("Unknown"), [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]),
        (node(None), [(NOT_READY, "NoSchedule")]),
        (
            node("Unknown", OTHER, Taint(key=NOT_READY, effect="NoExecute")),
            [(OTHER.key, "NoSchedule"), (UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")],
        ),
        (node("True", OTHER, Taint(key=UNREACHABLE, effect="NoExecute")), [(OTHER.key, "NoSchedule")]),
        (node("True", unschedulable=True), [(UNSCHEDULABLE, "NoSchedule")]),
        (node("True", Taint(key=UNSCHEDULABLE, effect="NoSchedule")), []),
        (node("True", pressure="DiskPressure"), [("node.kubernetes.io/disk-pressure", "NoSchedule")]),
    ],
)
def test_taints_follow_conditions(ill, expected):
    taints = plan_taints(ill, NOW, may_evict=True)
    assert (taints if taints is None else [(t.key, t.effect) for t in taints]) == expected
    settled = node("True")
    if taints is not None:
        settled = Node(metadata=ill.metadata, spec=NodeSpec(taints=taints, unschedulable=ill.spec.unschedulable),
                       status=ill.status)  # fmt: skip
        again = plan_taints(settled, "2027-01-01T00:00:00Z", may_evict=True)
        assert again is None, "the same again changes nothing"


@pytest.mark.parametrize("ill", [node("Unknown"), node("Unknown", Taint(key=UNREACHABLE, effect="NoExecute"))])
def test_no_eviction_taint_is_set_while_eviction_is_disabled(ill):
    assert [(t.key, t.effect) for t in plan_taints(ill, NOW, may_evict=False) or ()] == [(UNREACHABLE, "NoSchedule")]


def test_conditions_of_a_silent_node_become_unknown():
    (*changed,) = plan_unknown_conditions(node("True", pressure="MemoryPressure"), NOW)
    assert [(c["type"], c["status"], c["reason"]) for c in changed] == [
        ("Ready", "Unknown", "NodeStatusUnknown"),
        ("MemoryPressure", "Unknown", "NodeStatusUnknown"),
        ("DiskPressure", "Unknown", "NodeStatusNeverUpdated"),
        ("PIDPressure", "Unknown", "NodeStatusNeverUpdated"),
    ]
    assert changed[0]["lastHeartbeatTime"] == "1", "when it was last heard of"
    done = Node(status=NodeStatus(conditions=tuple(Condition(type=c["type"], status="Unknown") for c in changed)))
    assert plan_unknown_conditions(done, NOW) == []


def test_heartbeats_renew_the_observed_time():
    first = next_heartbeat(None, "r1", node("True"), 10)
    assert next_heartbeat(first, "r1", node("True"), 20) is first
    assert next_heartbeat(first, "r2", node("True"), 20).seen_at == 20
    assert next_heartbeat(first, "r1", node("True", heartbeat="2"), 20).seen_at == 20
    assert next_heartbeat(first, "r1", node("Unknown", heartbeat="3"), 20) is first, "our own result is no sign of life"


T0 = 1_700_000_000.0
NO_EXECUTE = Taint(key="k", effect="NoExecute", value="v", time_added=format_time(T0))


@pytest.mark.parametrize(
    ("tolerations", "due"),
    [
        ([], T0 + 5),
        ([Toleration(key="k", operator="Exists")], NEVER),
        ([Toleration(key="k", value="v")], NEVER),
        ([Toleration(key="k", value="other")], T0 + 5),
        ([Toleration(operator="Exists")], NEVER),
        ([Toleration(key="k", operator="Exists", effect="NoSchedule")], T0 + 5),
        ([Toleration(key="k", operator="Exists", effect="NoExecute", toleration_seconds=300)], T0 + 300),
        ([Toleration(key="k", operator="Exists", toleration_seconds=-7)], T0),
        ([Toleration(operator="Exists"), Toleration(key="k", operator="Exists", toleration_seconds=9)], T0 + 9),
    ],
)
def test_the_eviction_time_follows_tolerations(tolerations, due):
    assert eviction_time([NO_EXECUTE], tolerations, T0 + 5) == due
    assert eviction_time([Taint(key="k", effect="NoSchedule")], tolerations, T0 + 5) == NEVER


def test_namespace_conditions_list_remaining_objects():
    remains = Remains()
    assert remains.is_empty
    assert {c.status for c in plan_conditions(remains)} == {"False"}
    remains.add("", "pods", [(), ("example.com/a",)])
    remains.add("apps", "deployments", [])
    remains.failures.append("secrets: forbidden")
    assert not remains.is_empty
    texts = {c.type: (c.status, c.reason, c.message) for c in plan_conditions(remains)}
    assert texts["NamespaceContentRemaining"] == (
        "True", "SomeResourcesRemain", "Some resources are remaining: pods. has 2 resource instances"
    )  # fmt: skip
    assert texts["NamespaceFinalizersRemaining"] == (
        "True",
        "SomeFinalizersRemain",
        "Some content in the namespace has finalizers remaining: example.com/a in 1 resource instances",
    )
    assert texts["NamespaceDeletionContentFailure"][2].endswith("1 remaining: secrets: forbidden")


def test_conditions_keep_their_transition_time():
    before = merge_conditions([], plan_conditions(Remains()), NOW)
    assert before is not None
    current = [Condition(type=c["type"], status=c["status"], reason=c["reason"], message=c["message"],
                         last_transition_time=NOW) for c in before]  # fmt: skip
    assert merge_conditions(current, plan_conditions(Remains()), "later") is None
    changed = Remains()
    changed.add("", "pods", [()])
    merged = merge_conditions(current, plan_conditions(changed), "later")
    assert merged is not None
    assert {c["type"] for c in merged if c["lastTransitionTime"] == "later"} == {"NamespaceContentRemaining"}


def item(uid: str, *owners: str, block: bool = False, waits: bool = False, orphans: bool = False) -> Item:
    references = tuple(
        OwnerReference(api_version="v1", kind="Pod", name=o, uid=o, block_owner_deletion=block) for o in owners
    )
    return Item(PODS, ObjectKey("d", uid), uid, references, waits or orphans, waits, orphans)


def test_changes_of_owners_enqueue_the_affected_objects():
    ownership = Ownership()
    owner, child = item("owner"), item("child", "owner", block=True)
    assert ownership.change(None, child) == {"child"}, "its owner is not known yet"
    assert ownership.change(None, owner) == set()
    assert ownership.change(child, child) == set()
    waiting = item("owner", waits=True)
    assert ownership.change(owner, waiting) == {"owner", "child"}
    assert ownership.change(waiting, waiting) == set()
    assert ownership.change(child, None) == {"owner"}, "it may go now"
    assert ownership.change(None, item("late", "owner")) == {"late", "owner"}
    assert ownership.change(waiting, None) == {"late"}
    assert ownership.change(None, item("o", orphans=True)) == {"o"}


def test_dependents_follow_a_changed_owner():
    ownership = Ownership()
    for one in (item("a"), item("b"), item("child", "a")):
        ownership.change(None, one)
    ownership.change(item("child", "a"), item("child", "b"))
    assert [d.uid for d in ownership.dependents("a")] == []
    assert [d.uid for d in ownership.dependents("b")] == ["child"]
    assert ownership.change(item("a"), None) == set()
    assert ownership.change(item("b"), None) == {"child"}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.frozensets(st.sampled_from("abcx"))), min_size=1), st.integers())
def test_ownership_does_not_depend_on_the_order_of_events(objects, seed):
    latest = {uid: item(uid, *sorted(owners)) for uid, owners in objects}
    shuffled = list(latest.values())
    random.Random(seed).shuffle(shuffled)
    ownership = Ownership()
    for uid, owners in objects:
        ownership.change(ownership.get(uid), item(uid, *sorted(owners)))
    other = Ownership()
    for one in shuffled:
        other.change(None, one)
    for uid in "abcx":
        assert ownership.get(uid) == other.get(uid)
        assert ownership.dependents(uid) == other.dependents(uid)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("*", list(CONTROLLERS)),
        ("*,-scheduler", [name for name in CONTROLLERS if name != "scheduler"]),
        ("endpoints-controller", ["endpoints-controller"]),
        ("endpoint*", [name for name in CONTROLLERS if name.startswith("endpoint")]),
        ("-scheduler", []),
        ("", []),
    ],
)
def test_controllers_are_selected_by_name_and_pattern(wanted, expected):
    assert select_controllers(wanted) == expected


def test_an_unknown_controller_is_refused():
    with pytest.raises(ValueError, match="no controller 'nope'"):
        select_controllers("*,-nope")

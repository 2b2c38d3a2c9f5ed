"""Conclusions from heartbeats, on a virtual network and clock; and which nodes exchange them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.balancer.detection import membership
from bridgehead.balancer.detection.membership import (
    ACTIVE,
    DEAD_AFTER,
    FULL_MESH_NODES,
    IDLE,
    ISOLATED_SECONDS,
    neighbours,
)

from .virtual_cluster import VirtualCluster

NAMES = ("node1", "node2", "node3")


def cut(cluster: VirtualCluster, *pairs: tuple[str, str]) -> None:
    cluster.passes = lambda sender, receiver: (sender, receiver) not in pairs


def isolate(cluster: VirtualCluster, name: str) -> None:
    cluster.passes = lambda sender, receiver: name not in (sender, receiver)


def test_all_nodes_find_each_other_before_they_conclude_anything():
    cluster = VirtualCluster(*NAMES).start()
    assert cluster.all_members() == [set(NAMES)] * 3
    assert all(len(node.views) == 1 for node in cluster.nodes.values())


def test_a_node_without_peers_is_alone_at_once():
    cluster = VirtualCluster("node1")
    cluster.run(0.01)
    assert cluster.members("node1") == {"node1"}


def test_a_node_whose_peers_run_no_speaker_listens_first():
    cluster = VirtualCluster("node1")
    cluster.nodes["node1"].membership.set_peers(["node2", "node3"])
    cluster.run(0.4)
    assert cluster.nodes["node1"].views == []
    cluster.run(0.4)
    assert cluster.members("node1") == {"node1"}


def test_a_dead_node_is_declared_dead_by_all_within_350_ms_of_its_last_heartbeat():
    cluster = VirtualCluster(*NAMES).start()
    cluster.nodes["node2"].is_dead = True
    died = cluster.now
    cluster.run(0.36)
    assert cluster.all_members() == [{"node1", "node3"}] * 2
    assert all(cluster.nodes[name].views[-1][0] - died > 0.2 for name in ("node1", "node3"))


def test_two_of_five_dead_at_once_are_declared_dead_without_delay():
    cluster = VirtualCluster("a", "b", "c", "d", "e").start()
    for name in "ab":
        cluster.nodes[name].is_dead = True
    cluster.run(0.37)
    assert cluster.all_members() == [{"c", "d", "e"}] * 3


def test_the_last_of_two_takes_over():
    cluster = VirtualCluster("node1", "node2").start()
    cluster.nodes["node2"].is_dead = True
    cluster.run(0.36)
    assert cluster.members("node1") == {"node1"}


def test_a_broken_path_between_two_nodes_kills_neither():
    cluster = VirtualCluster(*NAMES).start()
    cut(cluster, ("node1", "node2"), ("node2", "node1"))
    cluster.run(2)
    assert cluster.all_members() == [set(NAMES)] * 3


def test_a_path_broken_in_one_direction_kills_neither():
    cluster = VirtualCluster(*NAMES).start()
    cut(cluster, ("node1", "node2"))
    cluster.run(2)
    assert cluster.all_members() == [set(NAMES)] * 3


@pytest.mark.parametrize("direction", ["cannot send", "cannot receive"])
def test_a_node_cut_off_in_one_direction_is_dead_for_the_others(direction):
    cluster = VirtualCluster(*NAMES).start()
    others = ("node2", "node3")
    pairs = [("node1", other) for other in others]
    cut(cluster, *(pairs if direction == "cannot send" else [(b, a) for a, b in pairs]))
    cluster.run(0.5)
    assert [cluster.members(name) for name in others] == [{"node2", "node3"}] * 2
    if direction == "cannot send":  # the others' heartbeats do not echo it, so it knows
        assert "node1" not in cluster.members("node1")
    else:
        assert cluster.members("node1") == set(NAMES)
        assert cluster.nodes["node1"].views[-1][1].is_isolated


def test_an_isolated_node_keeps_its_view_for_a_while():
    cluster = VirtualCluster(*NAMES).start()
    isolate(cluster, "node1")
    cluster.run(1.5)
    assert cluster.members("node1") == set(NAMES)
    assert cluster.nodes["node1"].views[-1][1].is_isolated
    cluster.run(ISOLATED_SECONDS)
    assert cluster.members("node1") == {"node1"}
    assert cluster.nodes["node1"].views[-1][1].is_isolated
    cluster.passes = lambda sender, receiver: True
    cluster.run(0.2)
    assert not cluster.nodes["node1"].views[-1][1].is_isolated


def test_a_node_that_receives_no_other_one_is_alone_at_once():
    cluster = VirtualCluster("node1", "node2").start()
    assert not cluster.nodes["node1"].views[-1][1].is_alone
    cluster.passes = lambda sender, receiver: receiver != "node1"  # in one direction
    begun = cluster.now
    cluster.run(1)
    [alone] = [at for at, view in cluster.nodes["node1"].views if view.is_alone and at > begun][:1]
    assert alone - begun < DEAD_AFTER + 0.01
    assert not cluster.nodes["node2"].views[-1][1].is_alone  # it receives heartbeats, although none that echoes
    cluster.passes = lambda sender, receiver: True
    cluster.run(0.2)
    assert not cluster.nodes["node1"].views[-1][1].is_alone
    single = VirtualCluster("node1").start()
    assert not single.nodes["node1"].views[-1][1].is_alone  # nobody is expected


def test_all_agree_within_a_tenth_of_a_second_after_a_heal():
    cluster = VirtualCluster("a", "b", "c", "d").start()
    cluster.passes = lambda sender, receiver: (sender in "ab") == (receiver in "ab")
    cluster.run(5)
    assert cluster.members("a") == {"a", "b"}
    assert cluster.members("c") == {"c", "d"}
    cluster.passes = lambda sender, receiver: True
    cluster.run(0.12)
    assert cluster.all_members() == [set("abcd")] * 4


def test_a_stopped_node_that_runs_again_first_learns_what_the_others_believe():
    cluster = VirtualCluster(*NAMES).start()
    cluster.pause("node1")
    cluster.run(3)
    assert cluster.all_members() == [{"node2", "node3"}] * 2
    before = len(cluster.nodes["node1"].views)
    cluster.resume("node1")
    cluster.run(0.2)
    assert cluster.all_members() == [set(NAMES)] * 3
    # It declared nobody dead for its own pause.
    views = [view.members for _, view in cluster.nodes["node1"].views[before:]]
    assert views == [{"node2", "node3"}, set(NAMES)]


def test_a_node_that_ends_is_dead_at_once():
    cluster = VirtualCluster(*NAMES).start()
    cluster.announce("node1", is_fit=False)
    cluster.run(0.005)
    assert cluster.members("node2") == {"node2", "node3"}
    assert cluster.nodes["node2"].membership.changes[-1].reason == "its speaker does not run"


def test_a_node_that_leaves_is_known_to_leave():
    cluster = VirtualCluster(*NAMES).start()
    cluster.announce("node1", is_leaving=True)
    cluster.run(0.1)
    assert [node.views[-1][1].leaving for node in cluster.nodes.values()] == [{"node1"}] * 3
    assert cluster.all_members() == [set(NAMES)] * 3


def test_a_large_cluster_agrees_by_relays(monkeypatch):
    monkeypatch.setattr(membership, "FULL_MESH_NODES", 15)
    names = [f"node{number:03}" for number in range(18)]  # too many for a full mesh
    cluster = VirtualCluster(*names).start()
    assert cluster.all_members() == [set(names)] * 18
    cluster.nodes["node007"].is_dead = True
    cluster.run(0.5)
    assert cluster.all_members() == [set(names) - {"node007"}] * 17
    cluster.announce("node016", is_fit=False)
    cluster.run(0.12)
    assert cluster.members("node001") == set(names) - {"node007", "node016"}


def test_heartbeats_are_rare_until_a_node_has_an_address_to_announce():
    cluster = VirtualCluster(*NAMES, is_active=False).start()
    assert cluster.all_members() == [set(NAMES)] * 3
    before = cluster.sent
    cluster.run(30)
    assert cluster.sent - before == 10 * 3 * 2  # one packet in three seconds from each node to each other one
    assert all(len(node.views) == 1 for node in cluster.nodes.values())
    cluster.activate("node1")
    cluster.run(1)
    assert all(node.membership.is_active for node in cluster.nodes.values())
    assert all(len(node.views) == 1 for node in cluster.nodes.values())


@given(st.floats(0, 1))
def test_a_node_that_dies_with_the_first_address_is_dead_as_soon_as_later_ones(phase):
    cluster = VirtualCluster(*NAMES, is_active=False).start()
    cluster.run(phase)
    cluster.activate("node1")
    cluster.nodes["node2"].is_dead = True
    cluster.run(0.36 + ACTIVE.interval)  # the first packet of the new pace may be lost
    assert cluster.all_members() == [{"node1", "node3"}] * 2


def test_the_pace_of_takeovers_reaches_all_nodes_of_a_grid(monkeypatch):
    monkeypatch.setattr(membership, "FULL_MESH_NODES", 15)
    names = [f"node{number:03}" for number in range(18)]
    cluster = VirtualCluster(*names, is_active=False).start()
    cluster.activate("node000")
    cluster.run(0.36)
    assert all(node.membership.is_active for node in cluster.nodes.values())
    assert all(change.is_alive for node in cluster.nodes.values() for change in node.membership.changes)


def test_a_silent_node_is_dead_after_seconds_while_nothing_can_be_taken_over():
    cluster = VirtualCluster(*NAMES, is_active=False).start()
    cluster.nodes["node2"].is_dead = True
    cluster.run(2)
    assert cluster.all_members() == [set(NAMES)] * 2
    cluster.run(IDLE.dead_after)
    assert cluster.all_members() == [{"node1", "node3"}] * 2


def test_a_replayed_packet_is_no_evidence():
    cluster = VirtualCluster("node1", "node2").start()
    old = cluster.nodes["node2"].membership.heartbeat("node1", cluster.now)
    cluster.nodes["node2"].is_dead = True
    cluster.run(0.5)
    assert cluster.members("node1") == {"node1"}
    cluster._push(cluster.now, "node1", old)
    cluster.run(0.1)
    assert cluster.members("node1") == {"node1"}


@given(st.integers(0, 2**32), st.floats(0, 0.15), st.lists(st.floats(0.01, 0.25), max_size=12))
def test_no_node_is_declared_dead_by_lost_packets_or_short_pauses(seed, loss, pauses):
    """A tenth of all packets may be lost, and nodes may pause for less than the time after which they are dead."""
    cluster = VirtualCluster("a", "b", "c", "d").start()
    choice = random.Random(seed)
    cluster.passes = lambda sender, receiver: choice.random() >= loss
    for seconds in pauses:
        name = choice.choice("abcd")
        cluster.pause(name)
        cluster.run(min(seconds, 0.2))
        cluster.resume(name)
        cluster.run(0.3)
    # The observers' own pauses make nobody dead, however long they are.
    cluster.passes = lambda sender, receiver: True
    cluster.run(0.3)
    assert all(change.is_alive for node in cluster.nodes.values() for change in node.membership.changes)


@given(
    st.integers(0, 2**32),
    st.lists(st.sampled_from(["pause", "resume", "split", "isolate", "heal", "loss"]), min_size=1, max_size=8),
)
def test_all_agree_after_any_history_once_it_heals(seed, history):
    cluster = VirtualCluster("a", "b", "c", "d", "e").start()
    choice = random.Random(seed)
    for event in history:
        name = choice.choice("abcde")
        side = set(choice.sample("abcde", 2))
        match event:
            case "pause":
                cluster.pause(name)
            case "resume":
                cluster.resume(name)
            case "split":
                cluster.passes = lambda sender, receiver, side=side: (sender in side) == (receiver in side)
            case "isolate":
                isolate(cluster, name)
            case "heal":
                cluster.passes = lambda sender, receiver: True
            case "loss":
                cluster.passes = lambda sender, receiver: choice.random() > 0.5
        cluster.run(choice.random() * 3)
    cluster.passes = lambda sender, receiver: True
    cluster.resume(*(node.name for node in cluster.nodes.values() if node.is_paused))
    cluster.run(1.0)
    assert cluster.all_members() == [set("abcde")] * 5


@pytest.mark.parametrize("count", [1, 2, 3, FULL_MESH_NODES])
def test_a_small_cluster_is_a_full_mesh(count):
    names = [f"n{number:04}" for number in range(count)]
    assert neighbours("n0000", names) == set(names[1:])


@pytest.mark.parametrize("count", [FULL_MESH_NODES + 1, 49, 50, 57, 99, 100, 103, 250])
def test_any_two_nodes_of_a_large_cluster_have_a_common_neighbour(count):
    names = [f"n{number:04}" for number in range(count)]
    near = {name: neighbours(name, names) for name in names}
    for first in names:
        assert first not in near[first]
        for second in near[first]:
            assert first in near[second]
        reached = near[first].union(*(near[second] for second in near[first])) | {first}
        assert reached == set(names)
    assert max(len(found) for found in near.values()) <= 4 * count**0.5

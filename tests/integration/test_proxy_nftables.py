"""The nftables mode in the kernel: what a change costs, what is repaired; the traffic is in test_proxy_modes.py."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from .proxy_objects import EXTERNAL, PLACES, WEB4, answered_by, keeps_its_pod, pods_of, service, slice_of, sticky
from .proxy_world import CLIENT4, NODE4, PODS, PORT, World, pod_ip

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def shared_world() -> Iterator[World]:
    with World() as world:
        yield world


@pytest.fixture
def world(shared_world: World) -> World:
    shared_world.reset()
    return shared_world


def test_a_change_is_small_and_takes_effect(world: World) -> None:
    world.put(service(), slice_of("pod1", "pod2"))

    assert world.put(service(), slice_of("pod1", "pod3")) == 4, "one backend and one hairpin pair, out and in"
    assert set(answered_by(world.connect("client", WEB4, 80, times=30))) == {"pod1", "pod3"}
    assert world.put(service(), slice_of("pod3", "pod1")) == 0, "the same endpoints in another order"
    world.ask("delete", name="web")
    assert world.connect("client", WEB4, 80) == ["timeout"]
    assert world.ask("difference") == []


@pytest.mark.parametrize(
    "damage",
    [
        ("flush", "ruleset"),
        ("delete", "table", "ip", "bridgehead"),
        ("flush", "chain", "ip", "bridgehead", "services"),
        ("insert", "rule", "ip", "bridgehead", "services", "accept"),
        ("add", "chain", "ip", "bridgehead", "foreign"),
        ("flush", "map", "ip", "bridgehead", "services"),
        ("delete", "element", "ip", "bridgehead", "tcp-endpoints", "{ 10.96.0.10 . 80 . 1 }"),
        ("add", "element", "ip", "bridgehead", "cluster-ips", "{ 10.0.0.1 }"),
    ],
    ids=" ".join,
)
def test_what_somebody_else_broke_is_repaired(world: World, damage: tuple[str, ...]) -> None:
    world.put(service(), slice_of(*PODS))
    assert world.ask("verify", thoroughly=True) is None
    before = world.run("nft", "list", "ruleset")

    world.run("nft", *damage)

    assert world.ask("verify", thoroughly=True) is not None
    assert world.ask("difference") == []
    assert set(answered_by(world.connect("client", WEB4, 80, times=40))) == set(PODS)
    assert sorted(world.run("nft", "list", "ruleset").split("\n")) == sorted(before.split("\n"))
    assert world.ask("verify", thoroughly=True) is None


def test_other_tables_are_nobodys_business(world: World) -> None:
    world.put(service(), slice_of(*PODS))
    world.ask("verify", thoroughly=True)

    world.run("nft", "add", "table", "ip", "somebody")

    assert world.ask("verify", thoroughly=True) is None
    world.run("nft", "delete", "table", "ip", "somebody")


def test_a_change_after_a_foreign_flush_fails_and_a_sync_puts_it_right(world: World) -> None:
    world.put(service(), slice_of("pod1"))
    world.run("nft", "flush", "ruleset")

    with pytest.raises(RuntimeError, match="NotFound"):
        world.put(service(), slice_of("pod2"))
    world.ask("sync")

    assert set(answered_by(world.connect("client", WEB4, 80))) == {"pod2"}
    assert world.ask("difference") == []


def test_a_new_proxy_takes_stale_rules_away_and_leaves_good_elements(world: World) -> None:
    world.put(service(), slice_of(*PODS))
    world.put(service("old", addresses=("10.96.0.99",), externalIPs=[EXTERNAL]))
    world.ask("restart")

    world.ask("load", service=service(), slices=[slice_of(*PODS)])
    assert world.ask("sync") < 8, "only what was stale"

    assert world.ask("difference") == []
    assert world.connect("client", "10.96.0.99", 80) == ["timeout"]
    assert set(answered_by(world.connect("client", WEB4, 80, times=40))) == set(PODS)


def test_more_than_an_ordinary_user_can_send_at_once_goes_in_parts(world: World) -> None:
    world.ask("load_many", services=1000, endpoints=5)
    world.ask("load", service=service(), slices=[slice_of(*PODS)])

    assert world.ask("sync") > 7000
    assert world.ask("difference") == []
    assert world.ask("verify", thoroughly=True) is None
    assert set(answered_by(world.connect("client", WEB4, 80, times=40))) == set(PODS)


def test_cleanup_leaves_nothing(world: World) -> None:
    world.put(service(), slice_of(*PODS))

    assert world.ask("cleanup") is True
    assert "bridgehead" not in world.run("nft", "list", "ruleset")
    assert world.ask("cleanup") is False


# --- Session affinity ------------------------------------------------------------------------------------


def test_affinity_ends_after_its_timeout_and_each_connection_renews_it(world: World) -> None:
    world.put(sticky(1), slice_of(*PODS))
    begun, _ = keeps_its_pod(world, 1.2)  # longer than the timeout
    while f"{CLIENT4} timeout" in world.run("nft", "list", "table", "ip", "bridgehead"):
        assert time.monotonic() < begun + 60, "never forgotten"
        time.sleep(0.02)
    begun = time.monotonic()
    pods = pods_of(world, "client")
    assert len(pods) == 1 or time.monotonic() > begun + 0.9
    assert world.ask("verify", thoroughly=True) is None


def test_affinity_survives_a_restart_and_other_timeouts_and_is_no_foreign_edit(world: World) -> None:
    world.put(sticky(), slice_of(*PODS))
    assert world.ask("verify", thoroughly=True) is None
    (chosen,) = pods_of(world, "client")
    assert world.ask("verify", thoroughly=True) is None

    world.ask("restart")
    world.ask("load", service=sticky(), slices=[slice_of(*PODS)])
    assert world.ask("sync") == 0
    assert pods_of(world, "client") == {chosen}
    world.put(sticky(86400), slice_of(*PODS))
    assert pods_of(world, "client") == {chosen}
    world.put(sticky(1), slice_of(*PODS))
    assert world.ask("difference") == []


def test_affinity_switched_off_and_on(world: World) -> None:
    world.put(sticky(), slice_of(*PODS))
    world.put(service(), slice_of(*PODS))
    assert pods_of(world, "client", times=40) == set(PODS)
    assert "affinity" not in world.run("nft", "list", "ruleset")
    world.put(sticky(), slice_of(*PODS))
    assert len(pods_of(world, "client")) == 1
    world.ask("delete", name="web")
    assert "affinity" not in world.run("nft", "list", "ruleset")
    assert world.ask("difference") == []


def test_what_insiders_are_remembered_at_is_nothing_for_outsiders(world: World) -> None:
    here, there = slice_of("pod1"), slice_of("pod2", "pod3", node="node2")
    there["metadata"] = {**there["metadata"], "name": "web-there"}
    world.put(sticky(type="NodePort", nodePort=30080, externalTrafficPolicy="Local"), there)
    (remote,) = pods_of(world, "client", WEB4)
    world.put(sticky(type="NodePort", nodePort=30080, externalTrafficPolicy="Local"), here, there)
    assert pods_of(world, "client", WEB4) == {remote}

    assert pods_of(world, "client", NODE4, 30080) == {"pod1"}
    assert pods_of(world, "client", WEB4) == {"pod1"}, "the last one counts"


def test_many_sticky_services_share_their_chains(world: World) -> None:
    for number in range(250):
        many = sticky(addresses=(f"10.97.{number}.1",))
        many["metadata"]["name"] = f"many-{number}"
        world.ask("load", service=many, slices=[slice_of("pod2", "pod3")])
    world.ask("load", service=sticky(), slices=[slice_of(*PODS)])

    assert world.ask("sync") > 250 * 5
    assert world.ask("difference") == []
    assert world.run("nft", "list", "chains", "ip").count("10800s") < 15
    assert len(pods_of(world, "client")) == 1
    assert len(pods_of(world, "client", "10.97.99.1")) == 1


def test_an_endpoint_that_is_a_cluster_ip_is_refused(world: World) -> None:
    world.put(service("other", addresses=("10.96.0.77",)), slice_of("pod2"))
    circle = slice_of("pod1")
    circle["endpoints"][0]["addresses"], circle["ports"][0]["port"] = ["10.96.0.77"], 80
    world.put(service(), circle)

    assert {where: world.connect(where, WEB4, 80) for where in PLACES} == {where: ["refused"] for where in PLACES}


def test_another_proxy_may_serve_what_is_not_ours(world: World) -> None:
    world.run("nft", "add table ip other; add chain ip other nat { type nat hook prerouting priority -99; }")
    world.run("nft", f"add rule ip other nat ip daddr 10.96.0.88 tcp dport 80 dnat to {pod_ip('pod2')}:{PORT}")

    world.run("ip", "address", "add", "10.96.0.90/32", "dev", "lo")

    answers = [world.connect("client", f"10.96.0.{number}", 80) for number in (88, 89, 90)]

    world.run("nft", "delete table ip other")
    world.run("ip", "address", "delete", "10.96.0.90/32", "dev", "lo")
    assert answers == [[f"pod2 from {CLIENT4}"], ["timeout"], ["refused"]], "the last one is an address of the node"

"""The nftables mode in the kernel: what a change costs, what is repaired; the traffic is in test_proxy_modes.py."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator

import pytest

from bridgehead.proxy.nftables import Kernel

from .namespaced import in_namespace, sh
from .proxy_objects import (
    CLIENT_SIDES,
    EXTERNAL,
    WEB4,
    WEB6,
    answered_by,
    keeps_its_pod,
    pods_of,
    service,
    slice_of,
    sticky,
)
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


def test_a_change_of_one_backend_is_one_small_transaction(world: World) -> None:
    world.put(service(), slice_of("pod1", "pod2"))

    assert world.put(service(), slice_of("pod1", "pod3")) == 4, "one backend and one hairpin pair, out and in"
    assert set(answered_by(world.connect("client", WEB4, 80, times=30))) == {"pod1", "pod3"}
    assert world.put(service(), slice_of("pod3", "pod1")) == 0, "the same endpoints in another order"
    world.ask("delete", name="web")
    assert world.connect("client", WEB4, 80) == ["timeout"]
    assert world.ask("difference") == []


def test_the_ruleset_of_a_small_cluster_is_short(world: World) -> None:
    """The proxy's part of it on a node of a lab: the system's Services, and a Deployment behind a NodePort Service."""
    dns = [("dns", 53, "UDP"), ("dns-tcp", 53, "TCP"), ("metrics", 9153, "TCP")]
    put_ports(world, "kubernetes", "10.96.0.1", [("https", 443, "TCP")], "pod1")
    put_ports(world, "kube-dns", "10.96.0.10", dns, "pod1", "pod2")
    world.put(service("web", addresses=("10.96.0.11",), type="NodePort", nodePort=30080), slice_of(*PODS))

    lines = world.run("nft", "list", "ruleset").splitlines()

    assert len(lines) < 90, lines
    is_element = re.compile(r"\t\telements = |\t\t\t ").match
    assert [line for line in lines if len(line) > 200 and not is_element(line)] == []
    assert set(answered_by(world.connect("client", NODE4, 30080, times=40))) == set(PODS)


def put_ports(world: World, name: str, address: str, ports: list[tuple[str, int, str]], *pods: str) -> None:
    some, slice_ = service(name, addresses=(address,)), slice_of(*pods)
    some["spec"]["ports"] = [{"name": name, "port": port, "protocol": protocol} for name, port, protocol in ports]
    slice_["ports"] = some["spec"]["ports"]
    world.put(some, slice_)


def test_the_table_of_a_family_is_created_with_its_first_service_and_kept(world: World) -> None:
    world.put(service(), slice_of("pod1"))
    assert "table ip6" not in world.run("nft", "list", "tables")

    world.put(service("six", addresses=(WEB6,)), slice_of("pod2", family=6))
    assert set(answered_by(world.connect("client", WEB6, 80))) == {"pod2"}
    world.ask("delete", name="six")
    assert world.ask("difference") == []
    world.ask("restart")
    world.ask("sync")

    assert world.run("nft", "list", "tables").count("bridgehead") == 2, "the kernel translates open connections"
    assert world.connect("client", WEB6, 80) == ["timeout"]
    assert world.ask("verify", thoroughly=True) is None


@pytest.mark.parametrize(
    "damage",
    [
        ("flush", "ruleset"),
        ("delete", "table", "ip", "bridgehead"),
        ("flush", "chain", "ip", "bridgehead", "nat-prerouting"),
        ("insert", "rule", "ip", "bridgehead", "nat-output", "accept"),
        ("add", "chain", "ip", "bridgehead", "foreign"),
        ("flush", "map", "ip", "bridgehead", "services"),
        ("delete", "element", "ip", "bridgehead", "endpoints", "{ 10.96.0.10 . tcp . 80 . 1:2 }"),
        ("add", "element", "ip", "bridgehead", "cluster-ips", "{ 10.0.0.1 }"),
    ],
    ids=" ".join,
)
def test_foreign_changes_are_repaired(world: World, damage: tuple[str, ...]) -> None:
    world.put(service(), slice_of(*PODS))
    assert world.ask("verify", thoroughly=True) is None
    before = world.run("nft", "list", "ruleset")

    world.run("nft", *damage)

    assert world.ask("verify", thoroughly=True) is not None
    assert world.ask("difference") == []
    assert set(answered_by(world.connect("client", WEB4, 80, times=40))) == set(PODS)
    assert sorted(world.run("nft", "list", "ruleset").split("\n")) == sorted(before.split("\n"))
    assert world.ask("verify", thoroughly=True) is None


def test_foreign_tables_are_left_alone(world: World) -> None:
    world.put(service(), slice_of(*PODS))
    world.ask("verify", thoroughly=True)

    world.run("nft", "add", "table", "ip", "somebody")

    assert world.ask("verify", thoroughly=True) is None
    world.run("nft", "delete", "table", "ip", "somebody")


def test_a_change_after_a_foreign_flush_fails_and_a_sync_repairs_it(world: World) -> None:
    world.put(service(), slice_of("pod1"))
    world.run("nft", "flush", "ruleset")

    with pytest.raises(RuntimeError, match="NotFound"):
        world.put(service(), slice_of("pod2"))
    world.ask("sync")

    assert set(answered_by(world.connect("client", WEB4, 80))) == {"pod2"}
    assert world.ask("difference") == []


def test_a_new_proxy_removes_stale_rules_and_keeps_valid_elements(world: World) -> None:
    world.put(service(), slice_of(*PODS))
    world.put(service("old", addresses=("10.96.0.99",), externalIPs=[EXTERNAL]))
    world.ask("restart")

    world.ask("load", service=service(), slices=[slice_of(*PODS)])
    assert world.ask("sync") < 8, "only what was stale"

    assert world.ask("difference") == []
    assert world.connect("client", "10.96.0.99", 80) == ["timeout"]
    assert set(answered_by(world.connect("client", WEB4, 80, times=40))) == set(PODS)


def test_a_sync_larger_than_the_send_buffer_is_sent_in_parts(world: World) -> None:
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


def test_affinity_ends_after_its_timeout_and_connections_renew_it(world: World) -> None:
    world.put(sticky(1), slice_of(*PODS))
    begun, _ = keeps_its_pod(world, 1.2)  # longer than the timeout
    while f"{CLIENT4} timeout" in world.run("nft", "list", "table", "ip", "bridgehead"):
        assert time.monotonic() < begun + 60, "never forgotten"
        time.sleep(0.02)
    begun = time.monotonic()
    pods = pods_of(world, "client")
    assert len(pods) == 1 or time.monotonic() > begun + 0.9
    assert world.ask("verify", thoroughly=True) is None


def test_affinity_survives_a_restart_and_changed_timeouts_without_a_repair(world: World) -> None:
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


def test_affinity_can_be_enabled_and_disabled(world: World) -> None:
    world.put(sticky(), slice_of(*PODS))
    world.put(service(), slice_of(*PODS))
    assert pods_of(world, "client", times=40) == set(PODS)
    assert "affinity" not in world.run("nft", "list", "ruleset")
    world.put(sticky(), slice_of(*PODS))
    assert len(pods_of(world, "client")) == 1
    world.ask("delete", name="web")
    assert "affinity" not in world.run("nft", "list", "ruleset")
    assert world.ask("difference") == []


def test_affinity_of_cluster_clients_does_not_apply_to_external_ones(world: World) -> None:
    here, there = slice_of("pod1"), slice_of("pod2", "pod3", node="node2")
    there["metadata"] = {**there["metadata"], "name": "web-there"}
    world.put(sticky(type="NodePort", nodePort=30080, externalTrafficPolicy="Local"), there)
    (remote,) = pods_of(world, "client", WEB4)
    world.put(sticky(type="NodePort", nodePort=30080, externalTrafficPolicy="Local"), here, there)
    assert pods_of(world, "client", WEB4) == {remote}

    assert pods_of(world, "client", NODE4, 30080) == {"pod1"}
    assert pods_of(world, "client", WEB4) == {"pod1"}, "the last one counts"


def test_many_services_with_affinity_share_their_chains(world: World) -> None:
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


def test_an_endpoint_whose_address_is_a_cluster_ip_is_refused(world: World) -> None:
    world.put(service("other", addresses=("10.96.0.77",)), slice_of("pod2"))
    circle = slice_of("pod1")
    circle["endpoints"][0]["addresses"], circle["ports"][0]["port"] = ["10.96.0.77"], 80
    world.put(service(), circle)

    assert [world.connect(where, WEB4, 80) for where in CLIENT_SIDES] == [["refused"]] * len(CLIENT_SIDES)


def test_services_of_another_proxy_are_ignored(world: World) -> None:
    world.run("nft", "add table ip other; add chain ip other nat { type nat hook prerouting priority -99; }")
    world.run("nft", f"add rule ip other nat ip daddr 10.96.0.88 tcp dport 80 dnat to {pod_ip('pod2')}:{PORT}")

    world.run("ip", "address", "add", "10.96.0.90/32", "dev", "lo")

    answers = [world.connect("client", f"10.96.0.{number}", 80) for number in (88, 89, 90)]

    world.run("nft", "delete table ip other")
    world.run("ip", "address", "delete", "10.96.0.90/32", "dev", "lo")
    assert answers == [[f"pod2 from {CLIENT4}"], ["timeout"], ["refused"]], "the last one is an address of the node"


@in_namespace
async def test_a_table_that_does_not_exist_is_found_out_without_nft() -> None:
    sh("nft add table ip6 other")
    with contextlib.closing(Kernel()) as kernel:
        assert (kernel.has_table("ip6", "other"), kernel.has_table("ip", "other")) == (True, False)
        assert b'"other"' in (await kernel.list_table("ip6", "other") or b"")
        assert await kernel.list_table("ip", "other") is None

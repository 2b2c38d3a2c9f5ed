"""The userspace mode's addresses and table on a node, which it repairs and removes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from .proxy_objects import CLIENT_SIDES, WEB4, WEB6, service, slice_of, talkers
from .proxy_world import NODE4, NODE6, PODS, World

pytestmark = pytest.mark.integration

LISTENING = {"169.254.98.104", "fd62:7269:6467:6568::1"}


@pytest.fixture(scope="module")
def shared_world() -> Iterator[World]:
    with World("userspace") as world:
        yield world


@pytest.fixture
def world(shared_world: World) -> World:
    shared_world.reset()
    return shared_world


def own_addresses(world: World) -> set[str]:
    (link,) = json.loads(world.run("ip", "-json", "address", "show", "dev", "lo"))
    return {entry["local"] for entry in link["addr_info"]} - {"127.0.0.1", "::1"}


def listener(world: World, protocol: str = "t") -> int:
    """The port of the only listener."""
    (line,) = (text for text in world.run("ss", f"-Hnl{protocol}").splitlines() if "169.254.98.104" in text)
    return int(line.split()[3].rpartition(":")[2])


def test_a_change_of_backends_does_not_change_the_kernels_rules(world: World) -> None:
    world.put(service(), slice_of("pod1"))
    before = listener(world), world.run("nft", "list", "table", "ip", "bridgehead-userspace")

    world.put(service(), slice_of("pod2", "pod3"))

    assert (listener(world), world.run("nft", "list", "table", "ip", "bridgehead-userspace")) == before
    assert {answer.split()[0] for answer in world.connect("client", WEB4, 80, times=4)} == {"pod2", "pod3"}


def test_listeners_answer_only_redirected_clients(world: World) -> None:
    world.put(service(), slice_of("pod1"))
    world.run("ip", "-n", "client", "route", "replace", "169.254.98.104", "via", NODE4)

    assert world.connect_each(CLIENT_SIDES, "169.254.98.104", listener(world)) == dict.fromkeys(CLIENT_SIDES, "timeout")
    assert world.connect_each(CLIENT_SIDES, WEB4, 80) == dict.fromkeys(CLIENT_SIDES, f"pod1 from {NODE4}")


def test_connections_of_the_node_keep_their_source_address(world: World) -> None:
    world.put(service(addresses=(WEB4, WEB6)), slice_of("pod1"), slice_of("pod1", family=6))

    assert world.connect("node", "10.244.1.1", 8080) == [f"pod1 from {NODE4}"]
    assert world.connect("node", WEB6, 80) == [f"pod1 from {NODE6}"], "no listener's address"


def test_a_removed_listener_address_is_restored(world: World) -> None:
    world.put(service(), slice_of("pod1"))
    assert own_addresses(world) == LISTENING
    for address in LISTENING:
        world.run("ip", "address", "delete", address, "dev", "lo")

    assert world.ask("verify", thoroughly=False) == [True, 2]

    assert own_addresses(world) == LISTENING
    assert world.connect("client", WEB4, 80) == [f"pod1 from {NODE4}"]
    assert world.ask("verify", thoroughly=True) is None


def test_without_ipv6_the_other_family_is_served(world: World) -> None:
    world.ask("cleanup")
    world.run("sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/lo/disable_ipv6")
    try:
        both = [slice_of("pod1"), slice_of("pod1", family=6)]
        world.ask("load", service=service(addresses=(WEB4, WEB6)), slices=both)
        world.ask("sync")
        assert world.connect("client", WEB4, 80) == [f"pod1 from {NODE4}"]
        assert world.connect("client", WEB6, 80) == ["refused"]
    finally:
        world.run("sh", "-c", "echo 0 >/proc/sys/net/ipv6/conf/lo/disable_ipv6")
    world.ask("verify", thoroughly=True)
    assert world.connect("client", WEB6, 80) == [f"pod1 from {NODE6}"], "there it is"


def test_cleanup_leaves_nothing(world: World) -> None:
    world.put(service(), slice_of(*PODS))

    assert world.ask("cleanup") is True

    assert own_addresses(world) == set()
    assert "userspace" not in world.run("nft", "list", "tables")
    assert "169.254.98.104" not in world.run("ss", "-Hnltu")
    assert world.ask("cleanup") is False


def test_idle_connections_to_a_removed_backend_are_closed(world: World) -> None:
    world.talk("listen", "pod1", 4)
    world.put(service(), talkers("pod1"))
    world.talk("dial", "a", "client", WEB4, 80)
    assert world.talk("exchange", "a") == "pod1"

    world.run("ip", "-n", "pod1", "route", "add", "blackhole", f"{NODE4}/32")
    try:
        world.put(service(), slice_of("pod2"))
        assert world.talk("exchange", "a") == "reset"
    finally:
        world.run("ip", "-n", "pod1", "route", "del", "blackhole", f"{NODE4}/32")


def test_a_restarted_proxy_replaces_the_listeners_of_the_earlier_one(world: World) -> None:
    def listening() -> set[str]:
        return set(re.findall(r"169\.254\.98\.104:\d+", world.run("ss", "-Hnlt")))

    world.put(service(), slice_of("pod1"))
    ports = listening()
    assert ports
    world.ask("restart")
    assert listening() == set()
    assert world.connect("client", WEB4, 80) == ["refused"], "nobody listens, and says so at once"

    world.ask("load", service=service(), slices=[slice_of("pod2")])
    world.ask("sync")

    assert world.connect("client", WEB4, 80) == [f"pod2 from {NODE4}"]
    assert listening() == ports, "the rules of the earlier run lead there"
    assert world.ask("difference") == []

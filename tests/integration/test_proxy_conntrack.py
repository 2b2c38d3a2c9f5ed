"""UDP clients that keep their socket: whom their flow reaches when backends go, and that no other flow is touched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .proxy_objects import EXTERNAL, PLACES, WEB4, WEB6, service, slice_of
from .proxy_world import NODE4, World

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def shared_world() -> Iterator[World]:
    with World() as world:
        yield world


@pytest.fixture
def world(shared_world: World) -> World:
    shared_world.reset()
    return shared_world


def put(world: World, *pods: str, family: int = 4, draining: tuple[str, ...] = (), **spec: Any) -> None:
    part = slice_of(*pods, *draining, family=family, udp=True)
    for endpoint in part["endpoints"][len(pods) :]:
        endpoint["conditions"] = {"ready": False, "serving": True, "terminating": True}
    world.put(service(udp=True, **spec), part)


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize(("family", "address"), [(4, WEB4), (6, WEB6)])
def test_a_client_goes_on_being_answered_when_its_server_is_replaced(
    world: World, where: str, family: int, address: str
) -> None:
    put(world, "pod2", family=family, addresses=(address,))
    assert world.converse("a", where, address, 80) == "pod2"

    put(world, "pod3", family=family, addresses=(address,))

    assert world.converse("a", where, address, 80) == "pod3"


def test_flows_to_backends_that_stay_are_not_touched(world: World) -> None:
    put(world, "pod1", "pod2")
    served = {name: world.converse(name, "client", WEB4, 80) for name in map(str, range(24))}
    assert set(served.values()) == {"pod1", "pod2"}
    before = set(world.flows(80))

    put(world, "pod2")

    kept = [name for name, pod in served.items() if pod == "pod2"]
    assert len(before & set(world.flows(80))) == len(kept)
    assert {world.converse(name, "client", WEB4, 80) for name in served} == {"pod2"}


def test_scaled_to_zero_and_back(world: World) -> None:
    put(world, "pod1")
    assert world.converse("a", "client", WEB4, 80) == "pod1"
    put(world)
    assert world.converse("a", "client", WEB4, 80) == "refused"
    put(world, "pod2")
    assert world.converse("a", "client", WEB4, 80) == "pod2"


def test_a_deleted_service_serves_nobody(world: World) -> None:
    put(world, "pod1")
    assert world.converse("a", "client", WEB4, 80) == "pod1"

    world.ask("delete", name="web")

    assert world.flows(80) == []
    assert world.converse("a", "client", WEB4, 80) == "timeout"


def test_a_pod_that_terminates_serves_its_clients_to_the_end(world: World) -> None:
    put(world, "pod1")
    assert world.converse("a", "client", WEB4, 80) == "pod1"
    put(world, "pod2", draining=("pod1",))
    assert world.converse("a", "client", WEB4, 80) == "pod1"
    assert world.converse("b", "client", WEB4, 80) == "pod2"
    put(world, "pod2")
    assert world.converse("a", "client", WEB4, 80) == "pod2"


def test_a_client_that_was_there_before_the_service(world: World) -> None:
    assert world.converse("a", "node", EXTERNAL, 80) == "timeout"
    assert len(world.flows(80)) == 1, "untranslated, and kept alive by whatever it sends"

    put(world, "pod1", externalIPs=[EXTERNAL])

    assert world.converse("a", "node", EXTERNAL, 80) == "pod1"


def test_node_ports(world: World) -> None:
    put(world, "pod1", type="NodePort", nodePort=30080)
    assert world.converse("a", "client", NODE4, 30080) == "pod1"
    put(world, "pod2", type="NodePort", nodePort=30080)
    assert world.converse("a", "client", NODE4, 30080) == "pod2"


def test_what_went_while_no_proxy_ran_is_found_by_the_next(world: World) -> None:
    put(world, "pod1")
    world.put(service("old", addresses=("10.96.0.99",), udp=True), slice_of("pod1", udp=True))
    assert world.converse("a", "client", WEB4, 80) == "pod1"
    world.converse("b", "client", "10.96.0.99", 80)
    world.ask("restart")

    world.ask("load", service=service(udp=True), slices=[slice_of("pod2", udp=True)])
    world.ask("sync")

    assert world.flows(80) == []
    assert world.converse("a", "client", WEB4, 80) == "pod2"

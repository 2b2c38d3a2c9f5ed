"""Changes that go to the kernel in parts, as in the user namespace of a lab: who connects in between is served.

Between any two parts somebody connects to every Service, and has to be answered by a pod that it had before or has
afterwards. decisions/0020.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests import tools

from .proxy_objects import service, slice_of
from .proxy_world import NODE4, PODS, World

pytestmark = pytest.mark.integration

LIMITS = {"nftables": 12, "iptables-nft": 10_000, "userspace": 12}  # elements, bytes, elements
Objects = tuple[dict[str, Any], list[dict[str, Any]]]
STICKY: dict[str, Any] = {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}}


def some(name: str, number: int, *pods: str, udp: bool = False, **spec: Any) -> Objects:
    return service(name, addresses=(f"10.96.0.{number}",), udp=udp, **spec), [slice_of(*pods, udp=udp)]


# Before, afterwards, and where it is called.
FEW_TO_MANY = (some("few", 1, "pod1"), some("few", 1, "pod2", "pod3"))
MANY_TO_FEW = (some("many", 2, *PODS), some("many", 2, "pod2"))
NOT_STICKY = (some("sticky", 3, "pod1", "pod2", **STICKY), some("sticky", 3, "pod2", "pod3"))
TO_STICKY = (some("loose", 4, *PODS), some("loose", 4, "pod1", "pod3", **STICKY))
DATAGRAMS = (some("dns", 5, "pod1", "pod2", udp=True), some("dns", 5, "pod3", udp=True))
NODE_PORT = (
    some("ported", 6, "pod1", type="NodePort", nodePort=30080),
    some("ported", 6, "pod2", "pod3", type="NodePort", nodePort=30080, externalTrafficPolicy="Local"),
)
GONE = some("gone", 7, *PODS)
FRESH = some("fresh", 8, *PODS)
CHANGING = (FEW_TO_MANY, MANY_TO_FEW, NOT_STICKY, TO_STICKY, DATAGRAMS, NODE_PORT)
WATCHED = [
    *(["client", f"10.96.0.{number}", 80, number == 5] for number in range(1, 7)),
    *(["pod1", f"10.96.0.{number}", 80, number == 5] for number in range(1, 5)),
    ["client", NODE4, 30080, False],
]
FIRST_ONE = ["client", "10.96.0.8", 80, False]


@pytest.fixture(scope="module", params=LIMITS)
def shared_world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "iptables-nft":
        tools.require("iptables-nft-restore")
    with World(request.param) as world:
        yield world


@pytest.fixture
def world(shared_world: World) -> World:
    shared_world.reset()
    return shared_world


def load(world: World, *objects: Objects) -> None:
    for one, slices in objects:
        world.ask("load", service=one, slices=slices)


def assert_all_served(world: World, parts: int) -> None:
    answers = world.ask("answers")
    assert len(answers) >= parts, "it did not go in parts"
    for number, some_answers in enumerate(answers):
        for watched, answer in zip(WATCHED, some_answers, strict=False):
            assert answer.startswith("pod"), (number, watched, answer)


def test_clients_are_served_between_the_parts_of_a_change(world: World) -> None:
    load(world, *(before for before, _ in CHANGING), GONE)
    world.ask("sync")
    world.ask("watch_parts", limit=LIMITS[world.mode], watched=WATCHED)

    world.ask("change", services=[*(after for _, after in CHANGING), FRESH], gone=["gone"])

    assert_all_served(world, 3)
    assert world.ask("difference") == []


def test_clients_are_served_while_a_restarted_proxy_writes_its_rules(world: World) -> None:
    """In userspace mode the listeners of the old proxy are closed."""
    if world.mode == "userspace":
        pytest.skip("connections are refused while no proxy runs")
    load(world, *(before for before, _ in CHANGING), GONE)
    world.ask("sync")
    world.ask("restart")
    world.ask("watch_parts", limit=LIMITS[world.mode], watched=WATCHED)
    load(world, *(after for _, after in CHANGING), FRESH)

    world.ask("sync")

    assert_all_served(world, 4)
    assert world.ask("difference") == []


def test_clients_are_served_while_a_table_of_another_version_is_replaced(world: World) -> None:
    """The table of an older version cannot be changed into the new one, so it is replaced in one transaction."""
    if world.mode != "nftables":
        pytest.skip("it has no table of its own, or no listeners while no proxy runs")
    load(world, *(before for before, _ in CHANGING))
    world.ask("sync")
    chain = "chain ip bridgehead filter-output"
    world.run("nft", f"flush {chain}; delete {chain}; add {chain} {{ type filter hook input priority 5; }}")
    world.ask("restart")
    world.ask("watch_parts", limit=100, watched=WATCHED)
    load(world, *(after for _, after in CHANGING), FRESH)

    world.ask("sync")

    assert_all_served(world, 6)
    assert world.ask("difference") == []
    assert "stand-in" not in world.run("nft", "list", "tables")


def test_no_client_that_was_served_is_refused_after_a_flush(world: World) -> None:
    load(world, *(before for before, _ in CHANGING), FRESH)
    world.ask("sync")
    world.ask("watch_parts", limit=8 * LIMITS[world.mode], watched=[FIRST_ONE])
    world.run("nft", "flush", "ruleset")

    world.ask("sync")

    answers = [answer for (answer,) in world.ask("answers")]
    assert len(answers) > 2
    assert "refused" not in answers, answers
    assert answers[-1].startswith("pod")

"""Handovers of addresses that other nodes had before: which rules the kernel gets."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator, Collection, Mapping

import pytest

from bridgehead.balancer import handovers as module
from bridgehead.balancer.handovers import Handovers
from bridgehead.balancer.ranges import IpAddress
from bridgehead.balancer.view import ClusterView, NodeView
from tests.unit.virtual_time import run_virtual

FIRST, SECOND, SIXTH = (ipaddress.ip_address(text) for text in ("10.1.0.1", "10.1.0.2", "fd00:b::1"))
NODES = ("node1", "node2", "node3")


class Tables:
    """The kernel's tables, of which one speaker has at most one pair."""

    nodes: dict[str, str] | None = None
    lost: frozenset[str] = frozenset()
    updates = 0

    def __init__(self) -> None:
        assert Tables.nodes is None
        Tables.nodes = {}

    def update(self, nodes: Mapping[IpAddress, IpAddress], lost: Collection[IpAddress]) -> None:
        Tables.nodes = {str(address): str(node) for address, node in nodes.items()}
        Tables.lost = frozenset(map(str, lost))
        Tables.updates += 1

    def close(self) -> None:
        Tables.nodes = None


def see(handovers: Handovers, *members: str, leaving: str = "", cordoned: str = "") -> None:
    """Let this speaker, that of node1, know which speakers are alive, and which of them ends."""
    nodes = {
        name: NodeView(
            name,
            {},
            is_ending=name == leaving,
            is_cordoned=name == cordoned,
            addresses=(f"10.0.0.{name[-1]}", f"fd00::{name[-1]}"),
        )
        for name in NODES
    }
    handovers.update(ClusterView("node1", nodes=nodes, members=frozenset(members)), {}, ())


async def a_moment() -> None:
    """Wait until what ends has ended: timers of the loop run in their order."""
    ended = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, ended.set)
    await ended.wait()


@contextlib.asynccontextmanager
async def running(monkeypatch) -> AsyncIterator[Handovers]:
    monkeypatch.setattr(module, "HandoverTables", Tables)
    monkeypatch.setattr(module, "_LATE_SECONDS", 0.0)
    handovers = Handovers()
    see(handovers, *NODES)
    task = asyncio.create_task(handovers.run())
    await asyncio.sleep(0)
    yield handovers
    task.cancel()
    await asyncio.wait([task])
    assert Tables.nodes is None


async def test_an_address_that_comes_back_in_a_moment_is_not_given_up(monkeypatch):
    async with running(monkeypatch) as handovers:
        handovers.begin(FIRST, "node2", "layer2")
        handovers.end(FIRST, "layer2")
        handovers.begin(FIRST, "node2", "layer2")
        await a_moment()
        handovers.apply()
        assert Tables.nodes == {"10.1.0.1": "10.0.0.2"}


async def test_packets_go_to_the_node_that_had_the_address(monkeypatch):
    async with running(monkeypatch) as handovers:
        handovers.apply()
        assert Tables.nodes is None  # nothing has moved
        handovers.begin(FIRST, "node2", "layer2")
        handovers.begin(SIXTH, "node3", "vrrp")
        handovers.begin(SECOND, "node1", "vrrp")  # this node
        handovers.begin(SECOND, "", "vrrp")
        handovers.apply()
        assert Tables.nodes == {"10.1.0.1": "10.0.0.2", "fd00:b::1": "fd00::3"}
        handovers.end(FIRST, "layer2")
        handovers.end(SECOND, "layer2")
        handovers.apply()
        assert Tables.nodes is not None
        assert len(Tables.nodes) == 2  # clients do not know the next holder yet
        await a_moment()
        assert Tables.nodes == {"fd00:b::1": "fd00::3"}


@pytest.mark.parametrize(("old", "new"), [("layer2", "vrrp"), ("vrrp", "layer2")])
async def test_a_protocol_gives_up_only_its_own_addresses(monkeypatch, old, new):
    async with running(monkeypatch) as handovers:
        handovers.begin(FIRST, "node2", old)
        handovers.begin(SECOND, "node2", old)
        # The address has moved to the other announcer, whose turn is first.
        handovers.begin(FIRST, "node3", new)
        handovers.end(FIRST, old)
        handovers.retain([], old)
        await a_moment()
        assert Tables.nodes == {"10.1.0.1": "10.0.0.3"}


async def test_a_dead_node_is_forgotten_at_once_and_one_that_ended_later(monkeypatch):
    monkeypatch.setattr(module, "_REMAINING_SECONDS", 0.0)
    async with running(monkeypatch) as handovers:
        handovers.begin(FIRST, "node2", "vrrp")
        handovers.begin(SECOND, "node3", "vrrp")
        handovers.apply()
        see(handovers, *NODES, cordoned="node2")
        see(handovers, "node1", "node3", cordoned="node2")
        assert Tables.nodes == {"10.1.0.2": "10.0.0.3"}
        handovers.begin(FIRST, "node2", "vrrp")
        handovers.apply()
        assert Tables.nodes == {"10.1.0.2": "10.0.0.3"}
        see(handovers, "node1", "node3", leaving="node3")
        see(handovers, "node1")
        assert Tables.nodes == {"10.1.0.2": "10.0.0.3"}
        await a_moment()
        assert Tables.nodes == {}


def test_copies_of_packets_to_a_lost_address_are_ignored_until_it_comes_back(monkeypatch):
    """The next holder makes copies for as long as it has the address: open connections have no bound."""

    async def move() -> None:
        async with running(monkeypatch) as handovers:
            for address in (FIRST, FIRST, SECOND, SIXTH):
                handovers.lose(address)
            handovers.apply()
            assert (Tables.nodes, Tables.lost) == ({}, {"10.1.0.1", "10.1.0.2", "fd00:b::1"})
            handovers.begin(SECOND, "node2", "layer2")
            handovers.begin(SIXTH, "", "layer2")  # the node that had it has died
            handovers.apply()
            await asyncio.sleep(24 * 3600)
            assert (Tables.nodes, Tables.lost) == ({"10.1.0.2": "10.0.0.2"}, {"10.1.0.1"})

    run_virtual(move())


async def test_a_node_that_ends_twice_is_forgotten_after_the_second_time(monkeypatch):
    timers: list[object] = []

    def call_later(*call: object) -> Timer:
        timers.append(call)
        return Timer(timers)

    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", call_later)
    handovers = Handovers()
    see(handovers, *NODES)
    handovers.begin(FIRST, "node2", "vrrp")
    for _ in range(2):
        see(handovers, *NODES, leaving="node2")
        see(handovers, "node1", "node3")
        see(handovers, *NODES)
    assert not timers


class Timer:
    """The handle of the last timer."""

    def __init__(self, timers: list[object]) -> None:
        self._timers, self._timer = timers, timers[-1]

    def cancel(self) -> None:
        self._timers.remove(self._timer)


async def test_a_node_that_may_have_an_address_for_an_instant_passes_packets_on(monkeypatch):
    monkeypatch.setattr(module, "_PASSING_SECONDS", 0.005)
    async with running(monkeypatch) as handovers:
        for address in (FIRST, SECOND):
            handovers.pass_on(address, "node2", "vrrp")
        handovers.pass_on(SIXTH, "node1", "vrrp")  # this node
        handovers.retain([], "vrrp")
        handovers.begin(SECOND, "node3", "vrrp")  # this node is the next holder
        handovers.apply()
        assert Tables.nodes == {"10.1.0.1": "10.0.0.2", "10.1.0.2": "10.0.0.3"}
        await a_moment()
        assert Tables.nodes == {"10.1.0.2": "10.0.0.3"}


def test_a_node_that_keeps_an_address_for_longer_than_an_instant_passes_packets_on_until_it_loses_it(monkeypatch):
    """On a busy machine the next holder may be seconds late."""

    async def move() -> None:
        async with running(monkeypatch) as handovers:
            for address in (FIRST, SECOND):
                handovers.pass_on(address, "node2", "vrrp")
            handovers.retain([FIRST], "vrrp")
            handovers.apply()
            await asyncio.sleep(60)
            assert Tables.nodes == {"10.1.0.1": "10.0.0.2"}
            handovers.retain([], "vrrp")
            await a_moment()
            assert Tables.nodes == {}

    run_virtual(move())


def test_the_rules_are_updated_once_for_all_handovers_that_end_at_a_time(monkeypatch):
    """With thousands of addresses, an update for each of them takes a minute."""

    async def move() -> None:
        async with running(monkeypatch) as handovers:
            for number in range(100):
                handovers.pass_on(FIRST + number, "node2", "vrrp")
            handovers.apply()
            before = Tables.updates
            await asyncio.sleep(60)
            assert (Tables.nodes, Tables.updates - before) == ({}, 1)

    run_virtual(move())

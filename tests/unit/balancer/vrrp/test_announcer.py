"""Reports of a node about its VRRP groups."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from typing import ClassVar

import pytest

from bridgehead.balancer.announcer import EventReport, UpdateResult
from bridgehead.balancer.compiled_configuration import Configuration, Pool, VrrpAdvertisement
from bridgehead.balancer.handovers import Handovers
from bridgehead.balancer.ranges import IpAddress, parse_range
from bridgehead.balancer.speaker.speaker_reconciler import _LEAVE_SECONDS
from bridgehead.balancer.view import ClusterView, NodeView, Publication
from bridgehead.balancer.vrrp import address_groups
from bridgehead.balancer.vrrp import announcer as module
from bridgehead.balancer.vrrp.address_groups import GroupKey, by_rank
from bridgehead.balancer.vrrp.announcer import VrrpAnnouncer
from bridgehead.balancer.workspace import Workspace
from bridgehead.objects.meta import ObjectKey
from tests.unit.virtual_time import run_virtual

POOL = Pool("eip", "openelb", (parse_range("10.1.0.0/24"),), vrrp=(VrrpAdvertisement("eip", "eth0"),))
WEB = ObjectKey("default", "web")
DEADLINE = 20.0


class Watcher:
    """An observer that records of which Services it should look at the addresses again."""

    def __init__(self) -> None:
        self.changed: list[set[ObjectKey]] = []

    def on_held_changed(self, services: Iterable[ObjectKey]) -> None:
        self.changed.append(set(services))

    def on_links_changed(self, names: Collection[str]) -> None:
        raise AssertionError

    def record(self, event: EventReport) -> None:
        raise AssertionError


class EndingKeepalived:
    """A keepalived that becomes the master of a group and ends."""

    groups: tuple[str, ...] = ()
    last_lines = ("killed",)

    def __init__(
        self,
        program: str,
        workspace: Workspace,
        render: Callable[[str], str],
        on_state: Callable[[str, bool], None],
        on_reloaded: object,
    ) -> None:
        self._render, self._on_state = render, on_state

    async def run(self) -> None:
        self._render("fifo")
        for name in self.groups:
            self._on_state(name, True)


class UnwritableKeepalived:
    """A keepalived that runs, and whose configuration cannot be changed."""

    last_lines = ()
    started = 0

    def __init__(
        self, program: str, workspace: Workspace, render: object, on_state: object, on_reloaded: object
    ) -> None:
        pass

    async def run(self) -> None:
        type(self).started += 1
        await asyncio.get_running_loop().create_future()

    def reload(self) -> None:
        raise OSError("No space left on device")


class RunningKeepalived:
    """A keepalived that runs, and whose notifications the test makes."""

    running: ClassVar[list[RunningKeepalived]] = []
    last_lines = ()

    def __init__(
        self,
        program: str,
        workspace: Workspace,
        render: Callable[[str], str],
        on_state: Callable[[str, bool], None],
        on_reloaded: object,
    ) -> None:
        self.on_state, self._render = on_state, render

    def reload(self) -> None:
        self._render("fifo")

    async def run(self) -> None:
        self._render("fifo")
        self.running.append(self)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.running.remove(self)


class FullDiskKeepalived(RunningKeepalived):
    """A keepalived that runs, and whose configuration cannot be changed once it is rendered."""

    def reload(self) -> None:
        super().reload()
        raise OSError("No space left on device")


class Recorder(Handovers):
    """The nodes to which packets of unknown connections go, and lost addresses, without the kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[str, str] = {}
        self.lost: list[str] = []

    def lose(self, address: IpAddress) -> None:
        self.lost.append(str(address))

    def apply(self) -> None:
        self.nodes = {str(address): found.node for address, found in self._handovers.items()}


@pytest.fixture
def announcer(monkeypatch) -> VrrpAnnouncer:
    monkeypatch.setattr(module, "Addresses", _no_addresses)
    monkeypatch.setattr(module, "_QUIET_SECONDS", 0)
    monkeypatch.setattr(module, "find_link", lambda interface: "")
    monkeypatch.setattr(module, "_FIRST_RETRY_SECONDS", 0)
    return VrrpAnnouncer(Watcher(), "keepalived", Workspace(), lambda message: None, Handovers())


def changes_of(announcer: VrrpAnnouncer) -> list[set[ObjectKey]]:
    watcher = announcer._observer
    assert isinstance(watcher, Watcher)
    return watcher.changed


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():  # noqa: ASYNC110 - the work of another task, without an event
            await asyncio.sleep(0)


def look(*nodes: str, pools: tuple[Pool, ...] = (POOL,), leaving: str = "", this: str = "node1") -> ClusterView:
    """Return what the speaker of a node sees when the speakers of these nodes are alive."""
    views = {name: NodeView(name, {}, is_ending=name == leaving) for name in ("node1", "node2", "node3")}
    return ClusterView(this, Configuration(pools), views, frozenset(nodes))


def announce(announcer: VrrpAnnouncer, *addresses: str, is_local: bool = False) -> UpdateResult:
    """Let the node announce these addresses of one Service."""
    held = tuple((ipaddress.ip_address(address), POOL) for address in addresses)
    web = Publication(WEB, "uid", {}, held, is_local, frozenset({"node1"}), True)
    view = ClusterView("node1", Configuration((POOL,)), {"node1": NodeView("node1", {})}, frozenset({"node1"}))
    return announcer.update(view, {WEB: web}, [WEB])


def test_addresses_beyond_the_virtual_routers_of_a_network_are_reported_once(monkeypatch, announcer):
    monkeypatch.setattr(address_groups, "VIRTUAL_ROUTERS", 0)
    message = "no virtual router id is free for 10.1.0.1: VRRP has 255 on a network"
    assert announce(announcer, "10.1.0.1") == UpdateResult(
        {WEB}, [EventReport(WEB, "Warning", "announceFailed", message)]
    )
    assert announce(announcer, "10.1.0.1") == UpdateResult(set(), [])


async def test_addresses_of_a_keepalived_that_ended_are_not_held(monkeypatch, announcer):
    monkeypatch.setattr(module, "KeepalivedProcess", EndingKeepalived)
    announce(announcer, "10.1.0.1")
    monkeypatch.setattr(EndingKeepalived, "groups", tuple(entry["group"] for entry in announcer.section()))
    changed = changes_of(announcer)
    changed.clear()
    running = asyncio.create_task(announcer.run())
    await until(lambda: len(changed) >= 2 or running.done())  # the master, and its end
    assert changed[:2] == [{WEB}, {WEB}]
    assert announcer.held([WEB]) == []
    running.cancel()
    await asyncio.wait([running])


async def test_a_configuration_that_cannot_be_written_does_not_end_the_speaker(monkeypatch, announcer):
    monkeypatch.setattr(module, "KeepalivedProcess", UnwritableKeepalived)
    announce(announcer, "10.1.0.1")
    running = asyncio.create_task(announcer.run())
    await until(lambda: UnwritableKeepalived.started == 1)
    announce(announcer, "10.1.0.1", "10.1.0.2")
    await until(lambda: UnwritableKeepalived.started >= 2 or running.done())
    assert not running.done()
    running.cancel()
    await asyncio.wait([running])


@contextlib.asynccontextmanager
async def mastering(announcer: VrrpAnnouncer) -> AsyncIterator[tuple[RunningKeepalived, str]]:
    """Let keepalived be the master of the group of 10.1.0.1 before the block; yield it and the group's name."""
    announce(announcer, "10.1.0.1")
    [group] = announcer.section()
    running = asyncio.create_task(announcer.run())
    try:
        await until(lambda: len(RunningKeepalived.running) == 1)
        [keepalived] = RunningKeepalived.running
        keepalived.on_state(group["group"], True)
        assert held(announcer) == ["10.1.0.1"]
        changes_of(announcer).clear()
        yield keepalived, group["group"]
    finally:
        running.cancel()
        await asyncio.wait([running])


def held(announcer: VrrpAnnouncer) -> list[str]:
    return [str(entry.address) for entry in announcer.held([WEB])]


async def test_an_address_that_joins_a_group_with_a_master_is_reported(monkeypatch, announcer):
    monkeypatch.setattr(module, "KeepalivedProcess", RunningKeepalived)
    async with mastering(announcer):
        announce(announcer, "10.1.0.1", "10.1.0.2")
        assert held(announcer) == ["10.1.0.1"]  # until keepalived has the change
        changes_of(announcer).clear()
        await until(lambda: held(announcer) != ["10.1.0.1"])
        assert held(announcer) == ["10.1.0.1", "10.1.0.2"]
        assert changes_of(announcer) == [{WEB}]


async def test_an_address_that_leaves_a_group_with_a_master_for_another_group_is_reported(monkeypatch, announcer):
    monkeypatch.setattr(module, "KeepalivedProcess", RunningKeepalived)
    async with mastering(announcer):
        announce(announcer, "10.1.0.1", is_local=True)
        assert held(announcer) == ["10.1.0.1"]  # until keepalived has the change
        changes_of(announcer).clear()
        await until(lambda: held(announcer) != ["10.1.0.1"])
        assert held(announcer) == []
        assert changes_of(announcer) == [{WEB}]


async def test_a_group_that_is_back_before_keepalived_has_read_that_it_was_gone_keeps_its_master(
    monkeypatch, announcer
):
    monkeypatch.setattr(module, "KeepalivedProcess", RunningKeepalived)
    async with mastering(announcer) as (keepalived, group):

        async def reload(*addresses: str) -> None:
            announce(announcer, *addresses)
            await until(lambda: len(announcer._configured) == len(addresses))

        await reload()
        assert held(announcer) == []
        await reload("10.1.0.1")
        assert held(announcer) == ["10.1.0.1"]
        await reload()
        for is_master in (False, True):  # notifications of another election, which are late
            keepalived.on_state(group, is_master)
        await reload("10.1.0.1")
        assert held(announcer) == ["10.1.0.1"]
        await reload()
        keepalived.on_state(group, False)  # keepalived has read it
        await reload("10.1.0.1")
        assert held(announcer) == []


async def test_a_keepalived_whose_configuration_could_not_be_written_leaves_no_master(monkeypatch, announcer):
    monkeypatch.setattr(module, "KeepalivedProcess", FullDiskKeepalived)
    async with mastering(announcer) as (keepalived, _):
        announce(announcer)
        await until(lambda: RunningKeepalived.running not in ([], [keepalived]))
        monkeypatch.setattr(FullDiskKeepalived, "reload", RunningKeepalived.reload)
        announce(announcer, "10.1.0.1")
        await until(lambda: bool(announcer._configured))
        assert held(announcer) == []


async def test_keepalived_runs_while_there_are_addresses_of_vrrp_and_this_node_is_a_member(monkeypatch, announcer):
    monkeypatch.setattr(module, "KeepalivedProcess", RunningKeepalived)
    running = asyncio.create_task(announcer.run())
    for nodes in ((), ("node2",)):
        announcer.update(look(*nodes), {}, ())
        assert not announcer._has_changed.is_set()
    announcer.update(look("node1", "node2"), {}, ())  # a new group of the node will be there at once
    await until(lambda: len(RunningKeepalived.running) == 1)
    announcer.update(look("node1", "node2", pools=()), {}, ())
    await until(lambda: not RunningKeepalived.running)
    running.cancel()
    await asyncio.wait([running])


async def test_packets_go_to_the_last_master_before_and_while_this_node_is_one(monkeypatch):
    monkeypatch.setattr(module, "Addresses", _no_addresses)
    monkeypatch.setattr(module, "KeepalivedProcess", RunningKeepalived)
    monkeypatch.setattr(module, "find_link", lambda interface: "")
    monkeypatch.setattr("bridgehead.balancer.handovers._LATE_SECONDS", 0)
    first, second, _ = nodes = by_rank(GroupKey("eth0", "selected by "), ["node1", "node2", "node3"])
    handovers = Recorder()
    announcer = VrrpAnnouncer(Watcher(), "keepalived", Workspace(), lambda message: None, handovers)
    web = Publication(WEB, "uid", {}, ((ipaddress.ip_address("10.1.0.1"), POOL),), False, frozenset(), True)

    def see(leaving: str = "") -> dict[str, str]:
        view = look(*nodes, leaving=leaving, this=first)
        for one in (handovers, announcer):
            one.update(view, {WEB: web}, [WEB])
        return handovers.nodes

    assert see() == {"10.1.0.1": second}
    running = asyncio.create_task(announcer.run())
    await until(lambda: len(RunningKeepalived.running) == 1)
    [keepalived] = RunningKeepalived.running
    [group] = announcer.section()
    keepalived.on_state(group["group"], True)
    assert not handovers.lost
    assert see(leaving=first) == {"10.1.0.1": second}  # it still has the address
    assert handovers.lost == ["10.1.0.1"]
    keepalived.on_state(group["group"], False)
    assert handovers.nodes == {"10.1.0.1": second}  # clients do not know the new master yet
    await until(lambda: not handovers.nodes)
    assert see() == {"10.1.0.1": second}
    running.cancel()
    await asyncio.wait([running])


def test_a_node_that_should_not_be_the_master_passes_packets_on_for_a_moment_and_while_it_is_one(monkeypatch):
    """The timers of two nodes may end together, and the right node may be late."""
    monkeypatch.setattr(module, "Addresses", _no_addresses)
    monkeypatch.setattr(module, "KeepalivedProcess", RunningKeepalived)
    monkeypatch.setattr(module, "find_link", lambda interface: "")
    first, second, third = nodes = by_rank(GroupKey("eth0", "selected by "), ["node1", "node2", "node3"])
    web = Publication(WEB, "uid", {}, ((ipaddress.ip_address("10.1.0.1"), POOL),), False, frozenset(), True)

    async def move() -> None:
        handovers = Recorder()
        announcer = VrrpAnnouncer(Watcher(), "keepalived", Workspace(), lambda message: None, handovers)

        def see(*members: str, leaving: str = "") -> dict[str, str]:
            view = look(*members, leaving=leaving, this=third)
            for one in (handovers, announcer):
                one.update(view, {WEB: web}, [WEB])
            return handovers.nodes

        see(*nodes)
        running = asyncio.create_task(announcer.run())
        await until(lambda: len(RunningKeepalived.running) == 1)
        [keepalived] = RunningKeepalived.running
        [group] = announcer.section()
        assert see(*nodes, leaving=first) == {"10.1.0.1": first}
        # No node has taken over before the speaker of the first one has ended, and then the wrong one does.
        await asyncio.sleep(_LEAVE_SECONDS + 0.5)
        assert see(second, third) == {"10.1.0.1": first}
        keepalived.on_state(group["group"], True)
        await asyncio.sleep(30)
        assert handovers.nodes == {"10.1.0.1": first}
        keepalived.on_state(group["group"], False)
        assert handovers.nodes == {"10.1.0.1": first}  # clients do not know the new master yet
        await asyncio.sleep(1)
        assert handovers.nodes == {}
        running.cancel()
        await asyncio.wait([running])

    run_virtual(move())


def _no_addresses() -> None:
    raise OSError("not in this test")

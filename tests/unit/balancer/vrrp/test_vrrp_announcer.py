"""Reports of a node about its VRRP groups."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Collection, Iterable

import pytest

from bridgehead.balancer.model import Configuration, Pool, VrrpAdvertisement
from bridgehead.balancer.ranges import parse_range
from bridgehead.balancer.speaker.handovers import Handovers
from bridgehead.balancer.view import ClusterView, NodeView, Publication
from bridgehead.balancer.vrrp import announcer as module
from bridgehead.balancer.vrrp.announcer import VrrpAnnouncer
from bridgehead.balancer.workspace import Workspace
from bridgehead.objects.meta import ObjectKey

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

    def record(self, service: ObjectKey, *, type: str = "Warning", reason: str, message: str) -> None:
        raise AssertionError


class EndingKeepalived:
    """A keepalived that becomes the master of a group and ends."""

    groups: tuple[str, ...] = ()
    last_lines = ("killed",)

    def __init__(
        self, program: str, workspace: Workspace, render: object, on_state: object, on_reloaded: object
    ) -> None:
        assert callable(on_state)
        self._on_state = on_state

    async def run(self) -> None:
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


@pytest.fixture
def announcer(monkeypatch) -> VrrpAnnouncer:
    monkeypatch.setattr(module, "Addresses", _no_addresses)
    monkeypatch.setattr(module, "_QUIET_SECONDS", 0)
    monkeypatch.setattr(module, "_FIRST_RETRY_SECONDS", 0)
    return VrrpAnnouncer(Watcher(), "keepalived", Workspace(), lambda message: None, Handovers())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():  # noqa: ASYNC110 - the work of another task, without an event
            await asyncio.sleep(0)


def announce(announcer: VrrpAnnouncer, *addresses: str) -> None:
    """Let the node announce these addresses of one Service."""
    held = tuple((ipaddress.ip_address(address), POOL) for address in addresses)
    web = Publication(WEB, "uid", {}, held, False, frozenset(), True)
    view = ClusterView("node1", Configuration(), {"node1": NodeView("node1", {})}, frozenset({"node1"}))
    announcer.update(view, {WEB: web}, [WEB])


async def test_addresses_of_a_keepalived_that_ended_are_not_held(monkeypatch, announcer):
    monkeypatch.setattr(module, "KeepalivedProcess", EndingKeepalived)
    announce(announcer, "10.1.0.1")
    monkeypatch.setattr(EndingKeepalived, "groups", tuple(entry["group"] for entry in announcer.section()))
    changed = announcer._observer.changed
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


def _no_addresses() -> None:
    raise OSError("not in this test")

"""Reports of a node about its VRRP groups."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Collection, Iterable

from bridgehead.balancer.model import Configuration, Pool, VrrpAdvertisement
from bridgehead.balancer.ranges import parse_range
from bridgehead.balancer.view import ClusterView, NodeView, Publication
from bridgehead.balancer.vrrp import announcer as module
from bridgehead.balancer.vrrp.announcer import VrrpAnnouncer
from bridgehead.balancer.workspace import Workspace
from bridgehead.objects.meta import ObjectKey

POOL = Pool("eip", "openelb", (parse_range("10.1.0.0/24"),), vrrp=(VrrpAdvertisement("eip", "eth0"),))
WEB = ObjectKey("default", "web")


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

    def __init__(self, program: str, workspace: Workspace, render: object, on_state: object) -> None:
        assert callable(on_state)
        self._on_state = on_state

    async def run(self) -> None:
        for name in self.groups:
            self._on_state(name, True)


async def test_addresses_of_a_keepalived_that_ended_are_not_held(monkeypatch):
    monkeypatch.setattr(module, "KeepalivedProcess", EndingKeepalived)
    monkeypatch.setattr(module, "Addresses", _no_addresses)
    watcher = Watcher()
    announcer = VrrpAnnouncer(watcher, "keepalived", Workspace())
    web = Publication(WEB, "uid", {}, ((ipaddress.ip_address("10.1.0.1"), POOL),), False, frozenset(), True)
    announcer.update(
        ClusterView("node1", Configuration(), {"node1": NodeView("node1", {})}, frozenset({"node1"})), {WEB: web}, [WEB]
    )
    monkeypatch.setattr(EndingKeepalived, "groups", tuple(entry["group"] for entry in announcer.section()))
    watcher.changed.clear()
    running = asyncio.create_task(announcer.run())
    while len(watcher.changed) < 2:  # the master, and its end
        await asyncio.sleep(0)
        assert not running.done()
    assert watcher.changed[:2] == [{WEB}, {WEB}]
    assert announcer.held() == []
    running.cancel()
    await asyncio.wait([running])


def _no_addresses() -> None:
    raise OSError("not in this test")

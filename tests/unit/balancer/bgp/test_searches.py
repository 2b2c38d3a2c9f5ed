"""Searches for the nodes of connections: which rules the kernel gets."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Collection

from bridgehead.balancer.bgp import searches as module
from bridgehead.balancer.bgp.searches import ConnectionSearches
from bridgehead.balancer.compiled_configuration import BgpAdvertisement, Pool
from bridgehead.balancer.ranges import parse_range
from bridgehead.balancer.view import ClusterView, NodeView, Publication
from bridgehead.network.host_paths import Path
from bridgehead.objects.meta import ObjectKey

POOL = Pool("pool", "metallb", (parse_range("10.1.0.0/16"),), bgp=(BgpAdvertisement("all"),))
WEB = ipaddress.ip_address("10.1.0.1")
KEY = ObjectKey("", "web")
SERVICES = {KEY: Publication(KEY, "web", {}, ((WEB, POOL),), False, frozenset(), True)}


class Tables:
    """The kernel's tables: announced and moved addresses, and the other nodes' addresses."""

    now: tuple[set[object], set[object], set[str]] | None = None
    has_changed: asyncio.Event

    def __init__(self) -> None:
        assert Tables.now is None

    def update(self, announced: Collection[object], moved: Collection[object], nodes: Collection[object]) -> None:
        Tables.now = set(announced), set(moved), set(map(str, nodes))
        Tables.has_changed.set()

    def close(self) -> None:
        Tables.now = None


def view(count: int, *, leaving: str = "") -> ClusterView:
    names = [f"node{number}" for number in range(1, count + 1)]
    nodes = {
        name: NodeView(name, {}, is_ending=name == leaving, addresses=(f"10.0.0.{name[4:]}", f"fd00::{name[4:]}", "?"))
        for name in names
    }
    return ClusterView("node1", nodes=nodes, members=frozenset(names))


def find_path(address: str) -> Path | None:
    """Find the path to a node: only fd00::4 is on another network."""
    return Path("", 1, is_on_link=address != "fd00::4")


async def test_all_other_nodes_are_asked_for_a_while(monkeypatch):
    monkeypatch.setattr(module, "SearchTables", Tables)
    monkeypatch.setattr(module, "find_path", find_path)
    monkeypatch.setattr("bridgehead.balancer.bgp.moved_addresses.SECONDS", 0.01)
    Tables.has_changed = asyncio.Event()
    searches = ConnectionSearches()
    searches.update(view(3), {}, ())
    task = asyncio.create_task(searches.run())
    await asyncio.sleep(0)
    assert Tables.now is None  # BGP announces nothing
    searches.update(view(3), SERVICES, [KEY])
    others = {"10.0.0.2", "fd00::2", "10.0.0.3", "fd00::3"}
    assert Tables.now == ({WEB}, {WEB}, others)
    Tables.has_changed.clear()
    await asyncio.wait_for(Tables.has_changed.wait(), 20)
    assert Tables.now == ({WEB}, set(), others)
    searches.update(view(4), SERVICES, [])
    assert Tables.now == ({WEB}, {WEB}, {"10.0.0.2", "10.0.0.3", "10.0.0.4"})
    searches.update(view(17), SERVICES, [])
    assert Tables.now == ({WEB}, {WEB}, set())  # too many
    task.cancel()
    await asyncio.wait([task])
    assert Tables.now is None

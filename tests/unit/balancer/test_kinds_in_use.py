"""The kinds of configuration objects that a speaker follows, by the annotation of the speakers' Secret."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest

from bridgehead.balancer import configuration_watch
from bridgehead.balancer.configuration import Compiled
from bridgehead.balancer.configuration_watch import ConfigurationWatch
from bridgehead.balancer.kinds_in_use import NOT_READ, KindsInUse, format_kinds, kind_name
from bridgehead.client import Informer, running
from bridgehead.client.codec import ListResult, WatchEvent
from bridgehead.client.errors import Invalid
from bridgehead.objects import metallb, openelb
from bridgehead.objects.core import Node
from bridgehead.objects.endpoint_slices import EndpointSlice, index_by_service
from bridgehead.objects.kinds import CONFIG_MAPS, ENDPOINT_SLICES, NODES
from bridgehead.objects.meta import ObjectMeta

POOLS = kind_name(metallb.IP_ADDRESS_POOLS)


def test_the_annotation_names_kinds() -> None:
    kinds = KindsInUse()
    assert not kinds.is_known
    assert metallb.IP_ADDRESS_POOLS not in kinds
    kinds.set_annotation(format_kinds({kind_name(metallb.BGP_PEERS), kind_name(CONFIG_MAPS)}))
    assert kinds.is_known
    assert not kinds.are_all
    assert metallb.BGP_PEERS in kinds
    assert CONFIG_MAPS in kinds
    assert openelb.BGP_PEERS not in kinds


def test_without_the_annotation_all_kinds_are_followed() -> None:
    kinds = KindsInUse()
    kinds.set_annotation(None)
    assert kinds.are_all
    assert openelb.EIPS in kinds


def test_no_kind_is_in_use_in_an_empty_annotation() -> None:
    kinds = KindsInUse()
    kinds.set_annotation(format_kinds(()))
    assert kinds.is_known
    assert not kinds.are_all
    assert metallb.IP_ADDRESS_POOLS not in kinds


def test_a_new_secret_is_awaited_unless_the_kinds_are_known() -> None:
    kinds = KindsInUse()
    kinds.set_annotation(NOT_READ)
    assert kinds.is_awaited
    kinds.set_annotation(POOLS)
    kinds.set_annotation(NOT_READ)
    assert not kinds.is_awaited
    assert metallb.IP_ADDRESS_POOLS in kinds


class Server:
    """An API server without objects but one Node and one EndpointSlice of the API servers. `listed`: the kinds."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self.requests: list[str] = []
        self.config = self
        self.servers = ()
        self.changed = asyncio.Event()

    async def list(self, kind: Any, *selection: str) -> ListResult[Any]:
        self.listed.append(kind_name(kind))
        self.changed.set()
        return ListResult(items=[Node(metadata=ObjectMeta(name="node1"))] if kind is NODES else [])

    async def watch(
        self, *selection: Any, initial: bool = False, **options: Any
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        if initial:
            raise Invalid(422, "Invalid", "sendInitialEvents is forbidden")
        await asyncio.Event().wait()
        yield

    async def request(self, method: str, path: str) -> dict[str, Any]:
        self.requests.append(path)
        self.changed.set()
        return {}

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(40):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


async def follow(kinds: KindsInUse, work: Callable[[Server, ConfigurationWatch], Awaitable[None]]) -> None:
    server: Any = Server()
    nodes: Informer[Node] = Informer(server, NODES)
    slices: Informer[EndpointSlice] = Informer(server, ENDPOINT_SLICES, indexes={"service": index_by_service})
    compiled: list[Compiled] = []
    watch = ConfigurationWatch(server, "metallb-system", nodes, compiled.append, slices=slices, kinds_in_use=kinds)
    watch.on_compiled = server.changed.set
    async with running(nodes, slices, watch):
        await server.until(lambda: {"nodes", "endpointslices.discovery.k8s.io"} <= set(server.listed))
        await work(server, watch)


async def test_the_first_configuration_waits_for_no_kind_that_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration_watch, "_FIRST_SECONDS", 1000)
    kinds = KindsInUse()
    kinds.set_annotation("")

    async def work(server: Server, watch: ConfigurationWatch) -> None:
        compiled = asyncio.Event()
        watch.on_compiled = compiled.set
        async with asyncio.timeout(40):
            await compiled.wait()

    await follow(kinds, work)


async def test_a_speaker_lists_the_kinds_in_use_when_they_come_into_use() -> None:
    kinds = KindsInUse()
    kinds.set_annotation(POOLS)

    async def work(server: Server, watch: ConfigurationWatch) -> None:
        await watch.wait_installed()
        await server.until(lambda: POOLS in server.listed)
        kinds.set_annotation(f"{POOLS},{kind_name(metallb.BGP_PEERS)}")
        await server.until(lambda: kind_name(metallb.BGP_PEERS) in server.listed)
        expected = ["endpointslices.discovery.k8s.io", "nodes", POOLS, kind_name(metallb.BGP_PEERS)]
        assert sorted(server.listed) == sorted(expected)
        assert server.requests == []

    await follow(kinds, work)


async def test_a_speaker_beside_a_controller_that_names_no_kinds_looks_for_all() -> None:
    kinds = KindsInUse()
    kinds.set_annotation(None)

    async def work(server: Server, watch: ConfigurationWatch) -> None:
        await server.until(lambda: "/apis" in server.requests and kind_name(CONFIG_MAPS) in server.listed)

    await follow(kinds, work)


async def test_a_speaker_waits_for_a_controller_that_has_not_read_the_objects() -> None:
    kinds = KindsInUse()
    kinds.set_annotation(NOT_READ)

    async def work(server: Server, watch: ConfigurationWatch) -> None:
        assert watch.lacks_kinds
        kinds.set_annotation("")
        await watch.wait_installed()
        assert not watch.lacks_kinds
        assert POOLS not in server.listed

    await follow(kinds, work)

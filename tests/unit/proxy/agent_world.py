"""The world of the agent's tests: a scripted API, a scripted kernel, and helpers for Services and slices."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from typing import Any

import msgspec

from bridgehead.client import ListResult, WatchEvent
from bridgehead.network.listening_ports import Listener
from bridgehead.objects.core import Event
from bridgehead.objects.kinds import ENDPOINT_SLICES, NODES, SERVICE_CIDRS, SERVICES, Kind
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.address_texts import Family
from bridgehead.proxy.agent import ProxyAgent
from bridgehead.proxy.config import ProxyConfig
from bridgehead.proxy.conntrack.reconciler import ConntrackReconciler
from bridgehead.proxy.errors import TransactionFailed
from bridgehead.proxy.frontend_table import FrontendTable, Update
from bridgehead.proxy.frontends import Frontend, Problem, Reason
from bridgehead.proxy.mode import Mode, Repair, Settings, Watched

_KINDS = (SERVICES, ENDPOINT_SLICES, NODES, SERVICE_CIDRS)
CONFIG = ProxyConfig(cluster_cidrs=("10.244.0.0/16",))


class ScriptedApi:
    """Lists and watches what the test puts, and keeps the events."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[ObjectKey, Any]] = {kind.plural: {} for kind in _KINDS}
        self._watches: dict[str, list[asyncio.Queue[WatchEvent[Any]]]] = {plural: [] for plural in self.objects}
        self._version = 0
        self.events: list[Event] = []

    def put(self, kind: Kind[Any], document: dict[str, Any]) -> None:
        self._version += 1
        document["metadata"] |= {
            "namespace": "default" if kind.namespaced else "",
            "resourceVersion": str(self._version),
        }
        obj = msgspec.convert(document, kind.type)
        event = "MODIFIED" if obj.key in self.objects[kind.plural] else "ADDED"
        self.objects[kind.plural][obj.key] = obj
        self._notify(kind, event, obj)

    def delete(self, kind: Kind[Any], name: str) -> None:
        obj = self.objects[kind.plural].pop(ObjectKey("default" if kind.namespaced else "", name))
        self._notify(kind, "DELETED", obj)

    def _notify(self, kind: Kind[Any], event: str, obj: Any) -> None:
        for queue in self._watches[kind.plural]:
            queue.put_nowait(WatchEvent(event, obj))

    async def list(self, kind: Kind[Any], *_: Any, **__: Any) -> ListResult[Any]:
        metadata = {"resourceVersion": str(self._version)}
        return msgspec.convert(
            {"items": list(self.objects[kind.plural].values()), "metadata": metadata},
            ListResult[kind.type],  # type: ignore[name-defined]
        )

    async def watch(self, kind: Kind[Any], *_: Any, **__: Any) -> AsyncGenerator[WatchEvent[Any], None]:
        queue: asyncio.Queue[WatchEvent[Any]] = asyncio.Queue()
        self._watches[kind.plural].append(queue)
        while True:
            yield await queue.get()

    async def create(self, kind: Kind[Any], obj: Any, *_: Any, **__: Any) -> None:
        self.events.append(obj)

    async def patch(self, kind: Kind[Any], *_: Any, **__: Any) -> None:
        """The count of an existing event; ignored."""


class ScriptedMode:
    """Records the calls; the next `fail_apply` and `fail_sync` calls fail."""

    name = "scripted"
    watched: Watched | None = None
    families: tuple[Family, ...] = (4, 6)

    def __init__(self) -> None:
        self.settings = Settings()
        self.applied: list[list[Update]] = []
        self.synced: list[dict[str, int]] = []
        self.verified = 0
        self.fail_apply = 0
        self.fail_sync = 0

    def configure(self, settings: Settings) -> None:
        self.settings = settings

    def unsupported(self, frontend: Frontend) -> Problem | None:
        return Problem(Reason.NOT_SUPPORTED, "sticky") if frontend.affinity_seconds else None

    async def apply(self, updates: Sequence[Update]) -> int:
        if self.fail_apply:
            self.fail_apply -= 1
            raise TransactionFailed("the table is gone")
        self.applied.append([*updates])
        return len(updates)

    async def sync(self, table: FrontendTable) -> int:
        if self.fail_sync:
            self.fail_sync -= 1
            raise TransactionFailed("no")
        self.synced.append({str(frontend.key): len(frontend.backends) for frontend in table})
        return len(table)

    async def verify(self, table: FrontendTable, *, thoroughly: bool) -> Repair | None:
        self.verified += 1
        return None

    async def let_through(self, address: str, port: int) -> bool:
        return False

    async def remove(self) -> bool:
        return False

    def render(self, table: FrontendTable) -> str:
        return ""


def service(name: str, address: str, **spec: Any) -> dict[str, Any]:
    ports = [{"name": "http", "port": 80}]
    return {"metadata": {"name": name}, "spec": {"clusterIP": address, "clusterIPs": [address], "ports": ports, **spec}}


def slice_of(name: str, *addresses: str) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{name}-1", "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": [{"addresses": [address], "nodeName": "node1"} for address in addresses],
    }


@contextlib.asynccontextmanager
async def running(
    api: ScriptedApi,
    mode: Mode,
    flows: ConntrackReconciler | None = None,
    config: ProxyConfig = CONFIG,
    progress: Any = None,
    listeners: Collection[Listener] = (),
) -> AsyncIterator[ProxyAgent]:
    """Run the agent of node1. `listeners`: the sockets of the node's processes, as they are at each look."""
    agent = ProxyAgent(
        api,  # type: ignore[arg-type]
        mode,
        config,
        "node1",
        flows=flows,
        progress=progress,
        list_listeners=lambda: frozenset(listeners),
        list_gateways=frozenset,
    )
    task = asyncio.create_task(agent.run())
    try:
        async with asyncio.timeout(100):
            await agent.wait_programmed()
        yield agent
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - the scripts set no event
            await asyncio.sleep(0.005)

"""The agent between a scripted API and a scripted kernel: what is recompiled, when it syncs, what it survives."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from typing import Any

import msgspec
import pytest

from bridgehead.client import ListResult, WatchEvent
from bridgehead.network.conntrack import Flow
from bridgehead.objects.core import Event, Node, Service
from bridgehead.objects.kinds import ENDPOINT_SLICES, NODES, SERVICES, Kind
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy import agent as agent_module
from bridgehead.proxy.agent import ProxyAgent, plan_node
from bridgehead.proxy.changes import FrontendTable, Update
from bridgehead.proxy.config import ProxyConfig
from bridgehead.proxy.errors import TransactionFailed
from bridgehead.proxy.flows import FlowKeeper
from bridgehead.proxy.frontends import Frontend, Problem, Reason
from bridgehead.proxy.mode import Repair, Settings

CONFIG = ProxyConfig(cluster_cidrs=("10.244.0.0/16",))


class ScriptedApi:
    """Lists and watches what the test puts, and keeps the events."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[ObjectKey, Any]] = {kind.plural: {} for kind in (SERVICES, ENDPOINT_SLICES, NODES)}
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
        self._tell(kind, event, obj)

    def delete(self, kind: Kind[Any], name: str) -> None:
        obj = self.objects[kind.plural].pop(ObjectKey("default", name))
        self._tell(kind, "DELETED", obj)

    def _tell(self, kind: Kind[Any], event: str, obj: Any) -> None:
        for queue in self._watches[kind.plural]:
            queue.put_nowait(WatchEvent(event, obj))  # type: ignore[arg-type]

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


class ScriptedMode:
    """Remembers what it was asked; fails as often as `failures` says."""

    name = "scripted"

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

    async def apply(self, updates: list[Update]) -> int:
        if self.fail_apply:
            self.fail_apply -= 1
            raise TransactionFailed("the table is gone")
        self.applied.append(updates)
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


@pytest.fixture
def api() -> ScriptedApi:
    return ScriptedApi()


@pytest.fixture
def mode() -> ScriptedMode:
    return ScriptedMode()


@contextlib.asynccontextmanager
async def running(api: ScriptedApi, mode: ScriptedMode, flows: FlowKeeper | None = None) -> AsyncIterator[ProxyAgent]:
    agent = ProxyAgent(api, mode, CONFIG, "node1", flows=flows)  # type: ignore[arg-type]
    task = asyncio.create_task(agent.run())
    try:
        async with asyncio.timeout(5):
            await agent.wait_programmed()
        yield agent
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - the scripts set no event
            await asyncio.sleep(0.005)


async def test_the_first_sync_has_everything_and_later_ones_only_what_changed(
    api: ScriptedApi, mode: ScriptedMode
) -> None:
    for number in range(5):
        api.put(SERVICES, service(f"s{number}", f"10.96.0.{number + 1}"))
        api.put(ENDPOINT_SLICES, slice_of(f"s{number}", "10.244.1.1", "10.244.1.2"))
    async with running(api, mode):
        assert mode.synced == [{f"10.96.0.{number + 1}:80/tcp": 2 for number in range(5)}]

        api.put(ENDPOINT_SLICES, slice_of("s3", "10.244.1.1"))
        await eventually(lambda: len(mode.applied) == 1)

        (update,) = mode.applied[0]
        (change,) = update.changes
        assert change.new is not None
        assert (str(change.new.key), len(change.new.backends)) == ("10.96.0.4:80/tcp", 1)
        assert len(mode.synced) == 1


async def test_changes_that_come_together_make_one_transaction(api: ScriptedApi, mode: ScriptedMode) -> None:
    async with running(api, mode):
        for number in range(5):
            api.put(SERVICES, service(f"s{number}", f"10.96.0.{number + 1}"))
        api.put(ENDPOINT_SLICES, slice_of("s3", "10.244.1.1"))
        await eventually(lambda: bool(mode.applied))

        assert len(mode.applied) == 1
        assert len(mode.applied[0]) == 5


async def test_what_changes_nothing_reaches_no_kernel(api: ScriptedApi, mode: ScriptedMode) -> None:
    api.put(SERVICES, service("s", "10.96.0.1"))
    async with running(api, mode) as agent:
        api.put(SERVICES, service("s", "10.96.0.1") | {"status": {}})
        api.put(SERVICES, service("headless", "None"))
        seen = agent.metrics.service_changes
        await eventually(lambda: seen._value.get() == 3 and not agent._dirty.services)

        assert mode.applied == []


async def test_a_deleted_service_goes(api: ScriptedApi, mode: ScriptedMode) -> None:
    api.put(SERVICES, service("s", "10.96.0.1"))
    async with running(api, mode):
        api.delete(SERVICES, "s")
        await eventually(lambda: bool(mode.applied))

        (update,) = mode.applied[0]
        assert [change.new for change in update.changes] == [None]
        assert update.old_cluster_ips == ("10.96.0.1",)
        assert update.new_cluster_ips == ()


class ScriptedFlows:
    """The kernel's UDP flows; each was made while the backend of its answerer was there."""

    def __init__(self, mode: ScriptedMode, *flows: Flow) -> None:
        self._mode = mode
        self.flows = list(flows)
        self.synced_before_delete: list[int] = []

    def close(self) -> None:
        return None

    def list_udp(self, family: int, address: str = "", port: int = 0) -> list[Flow]:
        return self.flows

    def delete(self, flows: Iterable[Flow]) -> int:
        gone = list(flows)
        self.synced_before_delete.append(len(self._mode.synced) + len(self._mode.applied))
        self.flows = [flow for flow in self.flows if flow not in gone]
        return len(gone)


async def test_flows_go_after_the_rules_that_made_them(api: ScriptedApi, mode: ScriptedMode) -> None:
    flows = [Flow(("10.96.0.1", 53), (f"10.244.1.{n}", 53), True, b"") for n in (1, 2, 3)]
    kernel = ScriptedFlows(mode, *flows)
    udp = {"name": "dns", "port": 53, "protocol": "UDP"}

    def endpoints(*addresses: str) -> dict[str, Any]:
        return slice_of("dns", *addresses) | {"ports": [udp]}

    api.put(SERVICES, service("dns", "10.96.0.1", ports=[udp]))
    api.put(ENDPOINT_SLICES, endpoints("10.244.1.1", "10.244.1.2"))
    async with running(api, mode, FlowKeeper(kernel)):
        assert kernel.flows == flows[:2], "the third went while no proxy ran"

        api.put(ENDPOINT_SLICES, endpoints("10.244.1.2"))
        await eventually(lambda: kernel.flows == flows[1:2])

    assert kernel.synced_before_delete == [1, 2]


async def test_a_refused_change_leads_to_a_full_sync_at_once(api: ScriptedApi, mode: ScriptedMode) -> None:
    async with running(api, mode) as agent:
        mode.fail_apply = 1
        api.put(SERVICES, service("s", "10.96.0.1"))
        await eventually(lambda: len(mode.synced) == 2)

        assert mode.synced[-1] == {"10.96.0.1:80/tcp": 0}
        await eventually(lambda: agent.health.is_alive)


async def test_a_kernel_that_refuses_everything_is_tried_again(
    api: ScriptedApi, mode: ScriptedMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "LONGEST_RETRY_SECONDS", 0.01)
    mode.fail_sync = 3
    api.put(SERVICES, service("s", "10.96.0.1"))
    async with running(api, mode) as agent:
        assert mode.synced == [{"10.96.0.1:80/tcp": 0}]
        assert agent.metrics.failures._value.get() == 3


async def test_a_service_that_cannot_be_compiled_does_not_stop_the_others(
    api: ScriptedApi, mode: ScriptedMode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = agent_module.compile_service

    def explode(service: Service, *rest: Any) -> Any:
        if service.metadata.name == "bad":
            raise RuntimeError("boom")
        return real(service, *rest)

    monkeypatch.setattr(agent_module, "compile_service", explode)
    api.put(SERVICES, service("bad", "10.96.0.1"))
    api.put(SERVICES, service("good", "10.96.0.2"))
    with caplog.at_level(logging.ERROR):
        async with running(api, mode):
            assert mode.synced == [{"10.96.0.2:80/tcp": 0}]
    assert "default/bad" in caplog.text


async def test_a_problem_is_told_once(api: ScriptedApi, mode: ScriptedMode, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with running(api, mode):
            for port in (1, 2):
                spec = {"externalIPs": ["nonsense"], "healthCheckNodePort": port, "sessionAffinity": "ClientIP"}
                api.put(SERVICES, service("odd", "10.96.0.1", **spec))
                api.put(ENDPOINT_SLICES, slice_of("odd", f"10.244.1.{port}"))
                await eventually(lambda port=port: len(mode.applied) == port)  # type: ignore[misc]
            await eventually(lambda: len(api.events) == 3)
    assert caplog.text.count("nonsense") == 1
    assert caplog.text.count("NotSupported: sticky") == 1
    told = {(e.involved_object.kind, e.involved_object.name, e.type, e.reason, e.message) for e in api.events}
    assert told == {
        ("Node", "node1", "Normal", "Starting", "Starting kube-proxy."),
        ("Service", "odd", "Warning", "BadAddress", "externalIPs: 'nonsense'"),
        ("Service", "odd", "Warning", "NotSupported", "sticky"),
    }


async def test_a_node_that_gets_another_family_is_written_anew(api: ScriptedApi, mode: ScriptedMode) -> None:
    api.put(SERVICES, service("s", "10.96.0.1") | {"metadata": {"name": "s"}})
    async with running(api, mode):
        assert mode.settings.families == (4,)

        api.put(
            NODES,
            {"metadata": {"name": "node1"}, "status": {"addresses": [{"type": "InternalIP", "address": "fd00::1"}]}},
        )
        await eventually(lambda: mode.settings.families == (4, 6) and len(mode.synced) == 2)


async def test_the_kernel_is_verified_without_any_change(
    api: ScriptedApi, mode: ScriptedMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "VERIFY_SECONDS", 0.01)
    async with running(api, mode):
        await eventually(lambda: mode.verified > 3)

        assert mode.applied == []
        assert len(mode.synced) == 1


def test_what_is_known_of_the_node() -> None:
    addresses = [{"type": "InternalIP", "address": "10.0.0.201"}, {"type": "Hostname", "address": "x"}]
    node = msgspec.convert(
        {
            "metadata": {"name": "node1", "labels": {"topology.kubernetes.io/zone": "a"}},
            "spec": {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24", "fd00:244:1::/64"]},
            "status": {"addresses": addresses},
        },
        Node,
    )

    facts, settings = plan_node(
        ProxyConfig(detect_local_mode="NodeCIDR", node_port_addresses=("primary",)), "node1", node, ()
    )

    assert (facts.zone, facts.families) == ("a", (4, 6))
    assert facts.cluster_cidrs == settings.cluster_cidrs == ("10.244.1.0/24", "fd00:244:1::/64")
    assert settings.node_port_cidrs == ("10.0.0.201/32",)
    facts, settings = plan_node(CONFIG, "node1", None, ())
    assert (facts.families, settings.node_port_cidrs) == ((4,), None)

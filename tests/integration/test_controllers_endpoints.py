"""The three endpoint controllers against the real API server over a socket. The test plays kubelets and users."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest

from bridgehead.client import ApiClient, EventRecorder
from bridgehead.controllers.endpoints.endpoints_controller import EndpointsController
from bridgehead.controllers.endpoints.endpointslice_controller import EndpointSliceController
from bridgehead.controllers.endpoints.mirroring import EndpointSliceMirroringController
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.core import Endpoints
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.kinds import ENDPOINT_SLICES, ENDPOINTS, EVENTS, NODES, PODS, SERVICE_ACCOUNTS, SERVICES, Kind
from bridgehead.objects.meta import ObjectKey

from .api_world import ApiWorld, api_world, running, until_seen

pytestmark = [pytest.mark.integration, pytest.mark.slow]

READY_SINCE = "2026-01-01T00:00:00Z"
CONTROLLERS = (EndpointsController, EndpointSliceController, EndpointSliceMirroringController)


KINDS: tuple[Kind[Any], ...] = (PODS, SERVICES, ENDPOINTS, ENDPOINT_SLICES, EVENTS)


class World:
    """An API server, and the controllers while `controllers()` is open."""

    def __init__(self, api: ApiWorld, client: ApiClient) -> None:
        self.client = client
        self._api = api
        self.informers = Informers(client)
        self.slice_writes: list[str] = []
        for kind in KINDS:
            self.informers.get(kind)
        self.informers.get(ENDPOINT_SLICES).on_change(self._note)

    def _note(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        changed = new or old
        assert changed is not None
        self.slice_writes.append(changed.metadata.name)

    async def until(self, what: Callable[[], Any]) -> Any:
        """The first true value of `what()`, asked again whenever anything watched changes."""
        return await until_seen(what, *(self.informers.get(kind) for kind in KINDS))

    @contextlib.asynccontextmanager
    async def controllers(self) -> AsyncIterator[None]:
        async with ApiClient(self._api.config) as client:
            informers, recorder = Informers(client), EventRecorder(client, "test")
            parts = [make(client, informers, recorder) for make in CONTROLLERS]
            async with running(*(part.run() for part in (informers, recorder, *parts))):
                yield

    # --- users and kubelets ------------------------------------------------------------------------------

    async def add_service(self, name: str = "web", **spec: Any) -> None:
        spec = {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}], **spec}
        spec = {key: value for key, value in spec.items() if value is not None}
        await self.client.create(SERVICES, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})

    async def add_pods(self, numbers: Iterable[int], ready: bool = True) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in numbers:
                tasks.create_task(self._add_pod(number, ready))

    async def _add_pod(self, number: int, ready: bool) -> None:
        spec = {"nodeName": "node1", "containers": [{"name": "c", "image": "nginx"}]}
        meta = {"name": f"p{number}", "namespace": "default", "labels": {"app": "web"}}
        await self.client.create(PODS, {"metadata": meta, "spec": spec})
        await self.set_ready(number, ready)

    async def set_ready(self, number: int, ready: bool) -> None:
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": READY_SINCE}
        ip = address(number)
        status = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [condition]}
        await self.client.patch(PODS, f"p{number}", "default", {"status": status}, "strategic", "status")

    # --- what there is -----------------------------------------------------------------------------------

    def slices(self, name: str = "web") -> list[EndpointSlice]:
        return [item for item in self.informers.get(ENDPOINT_SLICES).items() if item.service_name == name]

    def ready(self, name: str = "web") -> list[str]:
        return sorted(e.addresses[0] for item in self.slices(name) for e in item.endpoints if e.conditions.ready)

    def endpoints(self, name: str = "web") -> Endpoints | None:
        return self.informers.get(ENDPOINTS).get(ObjectKey("default", name))

    def ready_in_endpoints(self, name: str = "web") -> list[str]:
        found = self.endpoints(name)
        return sorted(a.ip for subset in found.subsets for a in subset.addresses) if found else []

    async def until_ready(self, numbers: Iterable[int]) -> None:
        wanted = sorted(map(address, numbers))
        await self.until(lambda: self.ready() == self.ready_in_endpoints() == wanted)


def version(item: EndpointSlice) -> int:
    return int(item.metadata.resource_version)


def address(number: int) -> str:
    return f"10.244.{number // 250}.{number % 250 + 1}"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with api_world() as api, ApiClient(api.config) as client:
        node = {"metadata": {"name": "node1", "labels": {"topology.kubernetes.io/zone": "a"}}}
        await client.create(NODES, node)
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": "default"}})
        world = World(api, client)
        async with running(world.informers.run()):
            await world.informers.wait_synced()
            yield world


async def test_endpoints_follow_their_pods(world: World) -> None:
    async with world.controllers():
        await world.add_service()
        (empty,) = await world.until(lambda: world.endpoints() and world.slices())
        assert (empty.endpoints, empty.ports or ()) == ((), ())
        await world.add_pods([1, 2, 3])
        await world.until_ready([1, 2, 3])
        (filled,) = world.slices()
        assert filled.metadata.name == empty.metadata.name, "the empty slice is filled, not replaced"
        assert filled.metadata.name.startswith("web-")
        (owner,) = filled.metadata.owner_references
        assert (owner.kind, owner.name, owner.controller) == ("Service", "web", True)
        assert {(e.node_name, e.zone) for e in filled.endpoints} == {("node1", "a")}

        await world.set_ready(1, False)
        await world.until_ready([2, 3])
        endpoints = world.endpoints()
        assert endpoints is not None
        assert endpoints.subsets[0].not_ready_addresses[0].ip == address(1)

        await world.client.delete(PODS, "p2", "default", grace_period_seconds=30)
        await world.until_ready([3])
        (terminating,) = [e for e in world.slices()[0].endpoints if e.conditions.terminating]
        assert (terminating.conditions.serving, terminating.conditions.ready) == (True, False)
        await world.client.delete(PODS, "p2", "default", grace_period_seconds=0)
        await world.until(lambda: len(world.slices()[0].endpoints) == 2)

        await world.client.delete(SERVICES, "web", "default")
        await world.until(lambda: not world.slices() and world.endpoints() is None)


async def test_a_change_of_one_pod_of_many_writes_one_slice(world: World) -> None:
    async with world.controllers():
        await world.add_service()
        await world.add_pods(range(250))
        await world.until_ready(range(250))
        assert max(len(item.endpoints) for item in world.slices()) <= 100
        world.slice_writes.clear()
        await world.set_ready(7, False)
        await world.until_ready(number for number in range(250) if number != 7)
        assert len(world.slice_writes) == 1


async def test_pods_that_become_ready_together_are_written_together(world: World) -> None:
    async with world.controllers():
        await world.add_service()
        await world.add_pods(range(100), ready=False)
        await world.until(lambda: sum(len(item.endpoints) for item in world.slices()) == 100)
        world.slice_writes.clear()
        begun = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for number in range(100):
                tasks.create_task(world.set_ready(number, True))
        await world.until_ready(range(100))
        together = time.monotonic() < begun + 3  # on a busy machine they come one after the other
        assert len(world.slice_writes) <= (50 if together else 100)


async def test_foreign_changes_are_repaired(world: World) -> None:
    async with world.controllers():
        await world.add_service()
        await world.add_pods([1])
        await world.until_ready([1])
        (item,) = world.slices()
        await world.client.delete(ENDPOINT_SLICES, item.metadata.name, "default")
        await world.client.delete(ENDPOINTS, "web", "default")
        await world.until(lambda: [s.metadata.uid for s in world.slices()] not in ([], [item.metadata.uid]))
        await world.until_ready([1])
        (item,) = world.slices()
        broken = await world.client.patch(ENDPOINT_SLICES, item.metadata.name, "default", {"endpoints": []})
        await world.until(lambda: version(world.slices()[0]) > version(broken))
        await world.until_ready([1])


async def test_changes_during_an_outage_of_the_api_server_are_applied_after_it(world: World) -> None:
    async with world.controllers():
        await world.add_service()
        await world.add_service("gone", selector={"app": "web"})
        await world.add_pods([1])
        await world.until_ready([1])
        await world.until(lambda: world.ready_in_endpoints("gone") == world.ready("gone") == [address(1)])
    old = {item.metadata.uid for item in world.slices()}
    for name in ("web", "gone"):
        await world.client.delete(SERVICES, name, "default")
    await world.add_service()
    await world.add_pods([2])
    async with world.controllers():
        await world.until(lambda: not world.slices("gone") and world.endpoints("gone") is None)
        await world.until_ready([1, 2])
        await world.until(lambda: not old & {item.metadata.uid for item in world.slices()})


async def test_hints_divide_endpoints_among_zones_by_their_processors(world: World) -> None:
    def hints() -> list[str]:
        found = [endpoint.hints for item in world.slices() for endpoint in item.endpoints]
        return sorted(hint.for_zones[0].name for hint in found if hint is not None)

    def messages(reason: str) -> list[str]:
        return [event.message for event in world.informers.get(EVENTS).items() if event.reason == reason]

    async def set_node(name: str) -> None:
        condition = {"type": "Ready", "status": "True"}
        status = {"allocatable": {"cpu": "4"}, "conditions": [condition]}
        await world.client.patch(NODES, name, "", {"status": status}, "strategic", "status")

    async def set_mode(mode: str | None) -> None:
        annotations = {"service.kubernetes.io/topology-mode": mode}
        await world.client.patch(SERVICES, "web", "default", {"metadata": {"annotations": annotations}})

    await set_node("node1")
    async with world.controllers():
        await world.add_service()
        await world.add_pods(range(4))
        await world.until_ready(range(4))
        await set_mode("Auto")
        (problem,) = await world.until(lambda: messages("TopologyAwareHintsDisabled"))
        assert problem == (
            "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes, "
            "addressType: IPv4"
        )
        meta = {"name": "node2", "labels": {"topology.kubernetes.io/zone": "b"}}
        await world.client.create(NODES, {"metadata": meta})
        await set_node("node2")
        await world.until(lambda: hints() == ["a", "a", "b", "b"])
        assert await world.until(lambda: messages("TopologyAwareHintsEnabled")) == [
            "Topology Aware Hints has been enabled, addressType: IPv4"
        ]
        await set_mode(None)
        await world.until(lambda: hints() == [])
        await world.until(
            lambda: (
                "Topology Aware Hints has been disabled, addressType: IPv4" in messages("TopologyAwareHintsDisabled")
            )
        )


async def test_endpoints_of_a_service_without_selector_are_mirrored(world: World) -> None:
    def subsets(*ips: str) -> list[dict[str, Any]]:
        return [{"addresses": [{"ip": ip} for ip in ips], "ports": [{"name": "http", "port": 80}]}]

    async with world.controllers():
        await world.add_service("db", selector=None)
        meta = {"name": "db", "namespace": "default", "labels": {"app": "db"}}
        await world.client.create(ENDPOINTS, {"metadata": meta, "subsets": subsets("192.0.2.1", "192.0.2.2")})
        await world.until(lambda: world.ready("db") == ["192.0.2.1", "192.0.2.2"])
        (item,) = world.slices("db")
        assert item.metadata.labels == {
            "app": "db",
            "kubernetes.io/service-name": "db",
            "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
        }
        await world.client.patch(ENDPOINTS, "db", "default", {"subsets": subsets("192.0.2.2", "192.0.2.3")})
        await world.until(lambda: world.ready("db") == ["192.0.2.2", "192.0.2.3"])
        assert [s.metadata.name for s in world.slices("db")] == [item.metadata.name]

        skip = {"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}}
        await world.client.patch(ENDPOINTS, "db", "default", skip)
        await world.until(lambda: not world.slices("db"))
        skip["metadata"]["labels"]["endpointslice.kubernetes.io/skip-mirror"] = "false"
        await world.client.patch(ENDPOINTS, "db", "default", skip)
        await world.until(lambda: world.ready("db"))
        await world.client.delete(ENDPOINTS, "db", "default")
        await world.until(lambda: not world.slices("db"))

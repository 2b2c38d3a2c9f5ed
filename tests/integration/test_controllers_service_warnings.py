"""Events of Services in trouble against the real API server, with the endpoint controllers beside it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridgehead.client import ApiClient, EventRecorder
from bridgehead.controllers.endpoints.endpoints_controller import EndpointsController
from bridgehead.controllers.endpoints.endpointslice_controller import EndpointSliceController
from bridgehead.controllers.endpoints.healed_events_controller import HealedEventsController
from bridgehead.controllers.endpoints.mirroring import EndpointSliceMirroringController
from bridgehead.controllers.endpoints.service_warnings_controller import ServiceWarningsController
from bridgehead.controllers.shared_informers import Informers
from bridgehead.insight.troubled_services import find_troubled_services
from bridgehead.objects.core import Event
from bridgehead.objects.kinds import (
    ENDPOINT_SLICES,
    ENDPOINTS,
    EVENTS,
    LEASES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Kind,
)
from bridgehead.objects.progress import ModeInUse, Versions, lease_changes, lease_name, new_lease

from .api_world import ApiWorld, api_world, running, until_seen

pytestmark = [pytest.mark.integration, pytest.mark.slow]

NODE = {"metadata": {"name": "node1"}}
ACCOUNT = {"metadata": {"name": "default", "namespace": "default"}}


class World:
    def __init__(self, api: ApiWorld, client: ApiClient) -> None:
        self._api = api
        self.client = client
        self.informers = Informers(client)
        self.events = self.informers.get(EVENTS)
        self.slices = self.informers.get(ENDPOINT_SLICES)

    @contextlib.asynccontextmanager
    async def controllers(self) -> AsyncIterator[None]:
        async with ApiClient(self._api.config) as client:
            informers, recorder = Informers(client), EventRecorder(client, "test")
            others = (EndpointsController, EndpointSliceController, EndpointSliceMirroringController)
            parts = [make(client, informers, recorder) for make in others]
            warnings = ServiceWarningsController(client, informers, recorder, delay=0.5)
            async with running(*(part.run() for part in (informers, recorder, *parts, warnings))):
                yield

    @contextlib.asynccontextmanager
    async def healing(self) -> AsyncIterator[None]:
        async with ApiClient(self._api.config) as client:
            informers = Informers(client)
            healed = HealedEventsController(client, informers, EventRecorder(client, "test"))
            async with running(informers.run(), healed.run()):
                yield

    async def create(self, kind: Kind[Any], name: str, **fields: Any) -> None:
        labels = fields.pop("labels", {})
        await self.client.create(kind, {"metadata": {"name": name, "namespace": "default", "labels": labels}, **fields})

    def found(self) -> dict[str, str]:
        """The reasons of Events by Service."""
        return {
            event.involved_object.name: event.reason
            for event in self.events.items()
            if event.source.component == "service-warnings-controller"
        }

    async def until(self, expected: dict[str, str]) -> None:
        await until_seen(lambda: self.found() == expected, self.events)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with api_world() as api, ApiClient(api.config) as client:
        await client.create(NODES, NODE)
        await client.create(SERVICE_ACCOUNTS, ACCOUNT)
        world = World(api, client)
        async with running(world.informers.run()):
            await world.informers.wait_synced()
            yield world


async def test_events_come_and_go_with_the_trouble(world: World) -> None:
    ports = [{"port": 80, "targetPort": "http"}]
    container = {"name": "c", "image": "nginx"}
    async with world.controllers():
        await world.create(SERVICES, "web", spec={"selector": {"app": "web"}, "ports": ports})
        await world.create(SERVICES, "db", spec={"ports": ports})
        await world.create(SERVICES, "lb", spec={"type": "LoadBalancer", "selector": {"app": "lb"}, "ports": ports})
        await world.create(SERVICES, "other", spec={"type": "ExternalName", "externalName": "example.com"})
        await world.create(SERVICES, "peers", spec={"clusterIP": "None", "ports": ports})
        named = {"containers": [{**container, "ports": [{"name": "http", "containerPort": 80}]}]}
        await world.create(PODS, "lb", labels={"app": "lb"}, spec=named)
        expected = {"web": "SelectorMatchesNothing", "db": "NoSelectorNoEndpoints", "lb": "NoLoadBalancer"}
        await world.until(expected)
        troubled = await find_troubled_services(world.client)
        assert [key.name for key in troubled] == ["db", "lb", "web"]

        await world.create(PODS, "web", labels={"app": "web"}, spec={"containers": [container]})
        await world.until({**expected, "web": "TargetPortNameMissing"})
        await world.create(ENDPOINTS, "db", subsets=[{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}])
        await world.until({"web": "TargetPortNameMissing", "lb": "NoLoadBalancer"})
        status = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}]}}}
        await world.client.patch(SERVICES, "lb", "default", status, "strategic", "status")
        await world.until({"web": "TargetPortNameMissing"})

    # Without the controllers the trouble ends: the next process deletes the Event.
    await world.create(SERVICES, "late", spec={"selector": {"app": "late"}, "ports": ports})
    await world.client.patch(SERVICES, "web", "default", {"spec": {"ports": [{"port": 80, "targetPort": 80}]}})
    seen: list[Event] = []
    world.events.on_change(lambda old, new: seen.append(new) if old is None and new is not None else None)
    before = len(seen)
    async with world.controllers():
        await world.until({"late": "SelectorMatchesNothing"})
    assert len(seen) == before + 1, "no Event was made again"


async def test_events_of_balancers_and_proxies_go_with_their_cause(world: World) -> None:
    async def warn(kind: str, name: str, reason: str) -> None:
        about = {"kind": kind, "name": name, **({"namespace": "default"} if kind == "Service" else {})}
        event = {"involvedObject": about, "reason": reason, "type": "Warning", "message": "why"}
        await world.create(EVENTS, f"{name}.1", **event)

    def seen() -> set[str]:
        return {event.involved_object.name for event in world.events.items()}

    wrong, right = ModeInUse("nftables", "ipvs", "no IPVS"), ModeInUse("nftables", "nftables")
    for name in ("first", "second", "third"):
        spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
        await world.create(SERVICES, name, spec=spec)
        await warn("Service", name, "AllocationFailed")
    for node, mode in (("node1", wrong), ("node2", wrong), ("node3", right)):
        await world.client.create(LEASES, new_lease(node, Versions(1, 1), time.time(), None, mode=mode))
        await warn("Node", node, "ProxyModeUnavailable")

    async def give_address(name: str) -> None:
        status = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}
        await world.client.patch(SERVICES, name, "default", status, subresource="status")

    await give_address("third")
    async with world.healing():
        # Healed before the controller started:
        await until_seen(lambda: seen() == {"first", "second", "node1", "node2"}, world.events)
        await give_address("first")
        changes = lease_changes("node1", Versions(2, 2), time.time(), mode=right)
        await world.client.patch(LEASES, lease_name("node1"), "kube-system", changes)
        await until_seen(lambda: seen() == {"second", "node2"}, world.events)

"""Times at which Events of Services in trouble are written, repeated and deleted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec

from bridgehead.client.errors import AlreadyExists, NotFound, Unreachable
from bridgehead.controllers.endpoints.service_warnings_controller import ServiceWarningsController
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.core import ContainerPort, Event, Service, ServicePort
from bridgehead.objects.endpoint_slices import SERVICE_NAME_LABEL, Endpoint, EndpointSlice
from bridgehead.objects.kinds import ENDPOINT_SLICES, PODS, SERVICES, Kind
from bridgehead.objects.meta import Object, ObjectMeta
from tests.unit.controllers.endpoints.sample_objects import pod, service
from tests.unit.virtual_time import run_virtual

PORT = ServicePort(port=80)


class FakeEvents:
    """The Events of an API server. `writes` has all requests that change them."""

    def __init__(self) -> None:
        self.stored: dict[str, Event] = {}
        self.writes: list[str] = []
        self.is_reachable = True

    def _request(self, text: str) -> None:
        self.writes.append(text)
        if not self.is_reachable:
            raise Unreachable("down")

    async def list(self, kind: Kind[Any], namespace: str = "", *, field_selector: str) -> Any:
        assert field_selector == "source=service-warnings-controller"
        return SimpleNamespace(items=list(self.stored.values()))

    async def create(self, kind: Kind[Any], event: Event) -> None:
        self._request(f"create {event.reason}")
        if event.metadata.name in self.stored:
            raise AlreadyExists(409, "AlreadyExists", "exists")
        self.stored[event.metadata.name] = event

    async def patch(self, kind: Kind[Any], name: str, namespace: str, patch: dict[str, Any]) -> None:
        self._request(f"patch {patch['count']}")
        if name not in self.stored:
            raise NotFound(404, "NotFound", "no such Event")
        found = self.stored[name]
        self.stored[name] = msgspec.structs.replace(found, count=patch["count"], message=patch["message"])

    async def delete(self, kind: Kind[Any], name: str, namespace: str) -> None:
        self._request("delete")
        if self.stored.pop(name, None) is None:
            raise NotFound(404, "NotFound", "no such Event")

    @property
    def reasons(self) -> Sequence[str]:
        return sorted(event.reason for event in self.stored.values())


class World:
    def __init__(self) -> None:
        self.events = FakeEvents()
        self._informers = Informers(None)  # type: ignore[arg-type]
        self._version = 0

    def put(self, kind: Kind[Any], obj: Object, **meta: Any) -> None:
        self._version += 1
        metadata = msgspec.structs.replace(obj.metadata, resource_version=str(self._version), **meta)
        self._informers.get(kind)._cache.put(msgspec.structs.replace(obj, metadata=metadata))

    def remove(self, kind: Kind[Any], obj: Object) -> None:
        self._informers.get(kind)._cache.remove(obj.key)

    @contextlib.asynccontextmanager
    async def controller(self) -> AsyncIterator[None]:
        informers: Any = self._informers
        controller = ServiceWarningsController(self.events, informers, None, now=lambda: 1.8e9)  # type: ignore[arg-type]
        for kind in (SERVICES, PODS, ENDPOINT_SLICES):
            informers.get(kind)._synced.set()
        task = asyncio.create_task(controller.run())
        await asyncio.sleep(0.1)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])


def filled_slice(of: Service) -> EndpointSlice:
    meta = ObjectMeta(name="s", namespace="default", labels={SERVICE_NAME_LABEL: of.metadata.name})
    return EndpointSlice(metadata=meta, endpoints=(Endpoint(addresses=("192.0.2.1",)),))


def test_a_selector_that_matches_nothing_is_reported_after_ten_seconds_until_a_pod_has_its_labels():
    async def main() -> None:
        world = World()
        async with world.controller():
            world.put(SERVICES, service(PORT))
            await asyncio.sleep(9)
            assert world.events.writes == []
            await asyncio.sleep(3)
            assert world.events.reasons == ["SelectorMatchesNothing"]
            (event,) = world.events.stored.values()
            assert (event.involved_object.kind, event.involved_object.name, event.type) == ("Service", "web", "Warning")
            world.put(PODS, pod(ips=(), ready=False))  # it has no address yet
            await asyncio.sleep(2)
            assert world.events.reasons == []
            world.put(PODS, pod(ips=(), ready=False, phase="Failed"))
            await asyncio.sleep(12)
            assert world.events.reasons == ["SelectorMatchesNothing"]

    run_virtual(main())


def test_a_trouble_of_a_moment_makes_no_event():
    async def main() -> None:
        world = World()
        world.put(PODS, pod())
        world.put(SERVICES, service(PORT))
        async with world.controller():
            for number in range(10):
                world.remove(PODS, pod(f"p{number}"))
                await asyncio.sleep(8)
                world.put(PODS, pod(f"p{number + 1}"))
                await asyncio.sleep(5)
        assert world.events.writes == []

    run_virtual(main())


def test_a_change_of_endpoints_of_a_healthy_service_costs_nothing():
    async def main() -> None:
        world = World()
        web = service(PORT)
        world.put(SERVICES, web)
        world.put(PODS, pod())
        found: list[str] = []
        async with world.controller():
            world.put(ENDPOINT_SLICES, filled_slice(web))
            await asyncio.sleep(2)
            loop = asyncio.get_running_loop()
            original = loop.call_at
            loop.call_at = lambda *args, **more: (found.append("timer"), original(*args, **more))[1]  # type: ignore
            for number in range(100):
                more = Endpoint(addresses=(f"192.0.2.{number}",))
                world.put(ENDPOINT_SLICES, msgspec.structs.replace(filled_slice(web), endpoints=(more,)))
                world.put(PODS, pod(ready=bool(number % 2)))
            loop.call_at = original
        assert found == []

    run_virtual(main())


def test_endpoints_of_a_user_end_the_trouble_of_a_service_without_selector():
    async def main() -> None:
        world = World()
        db = service(PORT, name="db", selector={})
        async with world.controller():
            world.put(SERVICES, db)
            await asyncio.sleep(12)
            assert world.events.reasons == ["NoSelectorNoEndpoints"]
            world.put(ENDPOINT_SLICES, filled_slice(db))
            await asyncio.sleep(2)
            assert world.events.reasons == []
            world.remove(ENDPOINT_SLICES, filled_slice(db))
            await asyncio.sleep(12)
            assert world.events.reasons == ["NoSelectorNoEndpoints"]
            world.remove(SERVICES, db)
            await asyncio.sleep(2)
            assert world.events.reasons == []

    run_virtual(main())


def test_a_new_message_changes_the_event():
    async def main() -> None:
        world = World()
        world.put(SERVICES, service(ServicePort(port=80, target_port="http")))
        world.put(PODS, pod())
        async with world.controller():
            await asyncio.sleep(12)
            assert world.events.reasons == ["TargetPortNameMissing"]
            world.put(PODS, pod("p2", ports=(ContainerPort(name="web", container_port=80),)))
            await asyncio.sleep(2)
            (event,) = world.events.stored.values()
            assert event.message.count("they have: web") == 1
            assert world.events.writes == ["create TargetPortNameMissing", "patch 2"]

    run_virtual(main())


def test_a_trouble_that_lasts_is_repeated_before_its_event_expires():
    async def main() -> None:
        world = World()
        world.put(SERVICES, service(PORT))
        async with world.controller():
            await asyncio.sleep(2 * 3600)
            assert world.events.writes == ["create SelectorMatchesNothing", "patch 2", "patch 3", "patch 4"]
            world.events.stored.clear()  # the API server dropped it
            await asyncio.sleep(3600)
            assert world.events.reasons == ["SelectorMatchesNothing"]

    run_virtual(main())


def test_a_restarted_process_neither_repeats_nor_forgets():
    async def main() -> None:
        world = World()
        world.put(SERVICES, service(PORT))
        world.put(SERVICES, service(PORT, name="db", selector={"app": "db"}))
        async with world.controller():
            await asyncio.sleep(12)
        assert world.events.reasons == ["SelectorMatchesNothing"] * 2
        events, after = world.events, World()  # another process, with informers of its own
        after.events = events
        events.writes.clear()
        after.put(SERVICES, service(PORT))
        after.put(PODS, pod())
        after.put(SERVICES, service(PORT, name="db", selector={"app": "db"}))
        async with after.controller():
            await asyncio.sleep(60)
            assert events.writes == ["delete"]
            assert [event.involved_object.name for event in events.stored.values()] == ["db"]

    run_virtual(main())


def test_an_event_whose_creation_had_no_answer_exists_once():
    async def main() -> None:
        world = World()
        world.put(SERVICES, service(PORT))
        async with world.controller():
            world.events.is_reachable = False
            await asyncio.sleep(30)
            assert world.events.stored == {}
            world.events.is_reachable = True
            await asyncio.sleep(60)
            assert world.events.reasons == ["SelectorMatchesNothing"]
            name, event = world.events.stored.popitem()
            world.put(PODS, pod())
            await asyncio.sleep(2)
            world.remove(PODS, pod())
            world.events.stored[name] = event
            await asyncio.sleep(12)
            assert len(world.events.stored) == 1

    run_virtual(main())

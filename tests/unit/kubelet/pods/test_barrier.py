"""The time, which is virtual here, that the barrier holds a terminating pod, and its watches."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest

from bridgehead.client import Informer, ListResult, WatchEvent
from bridgehead.client.codec import ListMeta
from bridgehead.client.errors import Forbidden
from bridgehead.kubelet.pods import barrier as barrier_module
from bridgehead.kubelet.pods.barrier import (
    ANSWER_SECONDS,
    FORBIDDEN_SECONDS,
    LEAVE_SECONDS,
    LINGER_SECONDS,
    Barrier,
)
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import ENDPOINT_SLICES, LEASES, SERVICES, Kind
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.progress import LEASE_SECONDS, Versions, new_lease
from tests.unit.virtual_time import run_virtual

POD = msgspec.convert(
    {
        "metadata": {"name": "web-1", "namespace": "default", "uid": "p1", "labels": {"app": "web"}},
        "status": {"podIP": "10.244.1.2", "conditions": [{"type": "Ready", "status": "True"}]},
    },
    Pod,
)
PROBE = "leases, one"


class Api:
    """Objects of three kinds; `asked` are the lists, as a kind's name, `watching` the watches that are open."""

    def __init__(self) -> None:
        self.version = 0
        self.objects: dict[str, dict[str, Any]] = {kind.plural: {} for kind in (SERVICES, ENDPOINT_SLICES, LEASES)}
        self.asked: list[str] = []
        self.watching: list[str] = []
        self.forbidden = False
        self._queues: dict[str, list[asyncio.Queue[Any]]] = {plural: [] for plural in self.objects}

    def put(self, kind: Kind[Any], document: dict[str, Any]) -> int:
        self.version += 1
        metadata = {"namespace": "default", **document["metadata"], "resourceVersion": str(self.version)}
        obj = msgspec.convert({**document, "metadata": metadata}, kind.type)
        self.objects[kind.plural][obj.metadata.name] = obj
        for queue in self._queues[kind.plural]:
            queue.put_nowait(WatchEvent("MODIFIED", obj))
        return self.version

    def put_service(self, name: str = "web", **spec: Any) -> None:
        spec = {"selector": {"app": "web"}, "clusterIP": "10.96.0.9", "ipFamilies": ["IPv4"], **spec}
        self.put(SERVICES, {"metadata": {"name": name}, "spec": spec})

    def put_slice(self, *, ready: bool, name: str = "web", elsewhere: bool = False) -> int:
        """Put the slice of a Service. `elsewhere`: another node has a ready endpoint."""
        conditions = {"ready": ready, "serving": True, "terminating": not ready}
        endpoints = [{"addresses": ["10.244.1.2"], "targetRef": {"uid": "p1"}, "conditions": conditions}]
        if elsewhere:
            endpoints.append({"addresses": ["10.244.2.2"], "targetRef": {"uid": "p2"}, "nodeName": "n2"})
        labels = {"kubernetes.io/service-name": name}
        return self.put(ENDPOINT_SLICES, {"metadata": {"name": f"{name}-x", "labels": labels}, "endpoints": endpoints})

    def put_progress(self, node: str, slices: int, at: float = 0.0, refused: Sequence[ObjectKey] = ()) -> None:
        self.put(LEASES, new_lease(node, Versions(0, slices), at, None, refused))

    async def list(
        self, kind: Kind[Any], namespace: str = "", labels: str = "", fields: str = "", limit: int = 0
    ) -> ListResult[Any]:
        self.asked.append(PROBE if limit else kind.plural)
        if self.forbidden and kind is LEASES:
            raise Forbidden(403, "Forbidden", "leases is forbidden")
        return ListResult(self._selected(kind, labels), ListMeta(str(self.version)))

    async def watch(self, kind: Kind[Any], namespace: str = "", labels: str = "", *_: Any, **__: Any) -> Any:
        queue: asyncio.Queue[Any] = asyncio.Queue()
        self._queues[kind.plural].append(queue)
        self.watching.append(kind.plural)
        try:
            while True:
                yield await queue.get()
        finally:
            self._queues[kind.plural].remove(queue)
            self.watching.remove(kind.plural)

    def _selected(self, kind: Kind[Any], labels: str) -> Any:
        key, _, value = labels.partition("=")
        return [o for o in self.objects[kind.plural].values() if not key or o.metadata.labels.get(key) == value]


class World:
    def __init__(self, api: Api, barrier: Barrier) -> None:
        self.api = api
        self.barrier = barrier

    async def held(self, *, bound: float = 5.0) -> float:
        """Return for how long the pod is held."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await self.barrier.hold(POD, bound)
        return loop.time() - begun

    async def after(self, seconds: float, act: Callable[[], Any]) -> None:
        await asyncio.sleep(seconds)
        act()


@contextlib.asynccontextmanager
async def open_world(api: Api) -> AsyncIterator[World]:
    services = Informer(api, SERVICES)  # type: ignore[arg-type]
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(services.run())
        await services.wait_synced()
        api.asked.clear()
        # The loop's clock stands for the wall's, on which leases are dated.
        async with Barrier(api, services, now=asyncio.get_running_loop().time) as barrier:  # type: ignore[arg-type]
            yield World(api, barrier)
        run.cancel()


def in_world(api: Api, main: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        async with open_world(api) as world:
            await main(world)

    run_virtual(run())


@pytest.fixture
def api() -> Api:
    api = Api()
    api.put_service()
    return api


def test_a_pod_without_services_is_not_held_and_sends_no_request():
    async def main(world):
        assert await world.held() == 0
        assert world.api.asked == []

    in_world(Api(), main)


def test_a_bound_of_zero_disables_the_barrier(api):
    async def main(world):
        assert await world.held(bound=0) == 0
        assert await world.held(bound=-3) == 0
        assert world.api.asked == []

    in_world(api, main)


def test_a_pod_is_held_until_slices_and_every_proxy_are_updated(api):
    api.put_slice(ready=True)
    for node in ("node1", "node2"):
        api.put_progress(node, api.version)

    async def main(world):
        async with asyncio.TaskGroup() as tasks:
            held = tasks.create_task(world.held())
            await asyncio.sleep(1)
            version = api.put_slice(ready=False)
            await asyncio.sleep(1)
            api.put_progress("node1", version)
            await asyncio.sleep(0.5)
            assert not held.done()
            api.put_progress("node2", version - 1, 2.5)
            await asyncio.sleep(0.5)
            assert not held.done()
            api.put_progress("node2", version + 5, 3.0)
        assert held.result() == pytest.approx(3 + ANSWER_SECONDS)

    in_world(api, main)


def test_a_programmed_change_is_not_waited_for(api):
    version = api.put_slice(ready=False)
    api.put_progress("node1", version)

    async def main(world):
        assert await world.held() == pytest.approx(ANSWER_SECONDS)

    in_world(api, main)


def test_the_last_pod_of_a_node_serves_until_clients_from_outside_have_changed_nodes(api, caplog):
    api.put_service(externalIPs=["10.0.0.60"], externalTrafficPolicy="Local")

    async def main(world: World) -> None:
        api.put_progress("n1", api.put_slice(ready=False, elsewhere=True))
        assert await world.held() == pytest.approx(LEAVE_SECONDS)
        assert await world.held(bound=0.5) == pytest.approx(0.5)
        assert not caplog.records

    in_world(api, main)


def test_a_rejected_service_is_not_waited_for(api):
    """The kernel may never accept the Service; its old rules may send connections to the pod."""

    async def main(world):
        api.put_progress("node1", api.put_slice(ready=False), refused=[ObjectKey("default", "web")])
        assert await world.held() == pytest.approx(ANSWER_SECONDS)

    in_world(api, main)


def test_all_services_of_the_pod_are_waited_for(api):
    api.put_service("other")
    version = api.put_slice(ready=False)
    other = api.put_slice(ready=True, name="other")
    api.put_progress("node1", other)

    async def main(world):
        async with asyncio.TaskGroup() as tasks:
            held = tasks.create_task(world.held())
            await asyncio.sleep(1)
            assert not held.done()
            api.put_progress("node1", api.put_slice(ready=False, name="other"))
        assert version < api.version

    in_world(api, main)


def test_the_bound_applies_and_the_log_names_missing_nodes(api, caplog):
    version = api.put_slice(ready=False)
    for number in range(1, 9):
        api.put_progress(f"node{number}", version if number == 1 else 0)

    async def main(world):
        assert await world.held(bound=2.0) == 2.0

    in_world(api, main)
    assert caplog.messages == [
        "pod default/web-1: stopped after 2.0 s although the proxies of node2, node3, node4, node5, node6 and 2 others"
        " may still send it connections"
    ]


def test_the_bound_applies_if_the_slices_never_change(api, caplog):
    api.put_slice(ready=True)
    api.put_progress("node1", 100)

    async def main(world):
        assert await world.held(bound=2.0) == 2.0

    in_world(api, main)
    assert "its endpoint slices do not mark it as terminating yet" in caplog.text


def test_a_dead_proxy_is_not_waited_for(api):
    version = api.put_slice(ready=False)
    api.put_progress("node1", version, at=100.0)
    api.put_progress("node2", 0, at=99.0 - LEASE_SECONDS)

    async def main(world):
        await asyncio.sleep(100)
        assert await world.held() == pytest.approx(ANSWER_SECONDS)

    in_world(api, main)


def test_a_deleted_service_is_not_waited_for(api):
    api.put_slice(ready=True)
    api.put_progress("node1", 100)

    async def main(world):
        def delete() -> None:
            [service] = api.objects["services"].values()
            for queue in api._queues["services"]:
                queue.put_nowait(WatchEvent("DELETED", service))

        async with asyncio.TaskGroup() as tasks:
            held = tasks.create_task(world.held())
            await asyncio.sleep(1)
            delete()
            await asyncio.sleep(0)
            api.put_slice(ready=True)  # any news
        assert held.result() < 2

    in_world(api, main)


def test_without_publishing_proxies_nothing_is_waited_for(api):
    api.put_slice(ready=True)

    async def main(world):
        assert await world.held() == 0

    in_world(api, main)


def test_a_node_without_permission_does_not_hold_its_pods(api, caplog):
    api.put_slice(ready=True)
    api.forbidden = True

    async def main(world):
        for _ in range(3):
            assert await world.held() == 0
        assert world.api.asked.count(PROBE) == 1
        await asyncio.sleep(FORBIDDEN_SECONDS)
        assert await world.held() == 0
        assert world.api.asked.count(PROBE) == 2

    in_world(api, main)
    assert len(caplog.messages) == 2


def test_watches_are_shared_and_end_after_an_idle_time(api, monkeypatch):
    monkeypatch.setattr(barrier_module, "ANSWER_SECONDS", 0.0)
    version = api.put_slice(ready=False)
    api.put_progress("node1", version, at=1000.0)

    async def main(world):
        watches = world.api.watching
        assert watches == ["services"]
        await asyncio.gather(*(world.held() for _ in range(10)))
        assert sorted(watches) == ["endpointslices", "leases", "services"]
        await asyncio.sleep(LINGER_SECONDS - 1)
        await world.held()
        assert world.api.asked.count("leases") == 1
        assert world.api.asked.count("endpointslices") == 1
        await asyncio.sleep(LINGER_SECONDS - 1)
        assert len(watches) == 3
        await asyncio.sleep(2)
        assert watches == ["services"]
        await world.held()
        assert world.api.asked.count("leases") == 2

    in_world(api, main)


def test_a_cancelled_wait_leaves_no_watch(api):
    api.put_slice(ready=True)
    api.put_progress("node1", 0)

    async def main(world):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await world.held()
        await asyncio.sleep(LINGER_SECONDS + 1)
        assert world.api.watching == ["services"]

    in_world(api, main)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

"""The times at which the reason why no node announces an address counts, and at which it goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

from bridgehead.balancer.compiled_configuration import Configuration, Layer2Advertisement, Pool
from bridgehead.balancer.controller.announceability import PATIENCE_SECONDS, Announceability
from bridgehead.balancer.controller.service_patches import CONDITION
from bridgehead.balancer.ranges import parse_range
from bridgehead.client import Informer, ListResult, WatchEvent
from bridgehead.client.codec import ListMeta
from bridgehead.objects.core import LoadBalancerIngress, LoadBalancerStatus, Node, Service, ServiceSpec, ServiceStatus
from bridgehead.objects.endpoint_slices import SERVICE_NAME_LABEL, Endpoint, EndpointConditions, EndpointSlice
from bridgehead.objects.kinds import NODES, SERVICES
from bridgehead.objects.meta import Condition, ObjectKey, ObjectMeta
from tests.unit.virtual_time import run_virtual

POOL = Pool("pool", "metallb", (parse_range("10.0.0.0/24"),), layer2=(Layer2Advertisement("all"),))
VALID = Configuration((POOL,))
KEY = ObjectKey("default", "web")
NODE = Node(metadata=ObjectMeta(name="node1", resource_version="1"))
EXCLUDED = Node(
    metadata=ObjectMeta(
        name="node1", resource_version="9", labels={"node.kubernetes.io/exclude-from-external-load-balancers": ""}
    )
)


def service(reason: str = "") -> Service:
    conditions = (Condition(type=CONDITION, status="False", reason=reason),) if reason else ()
    return Service(
        metadata=ObjectMeta(name="web", namespace="default", resource_version="1"),
        spec=ServiceSpec(type="LoadBalancer"),
        status=ServiceStatus(
            load_balancer=LoadBalancerStatus(ingress=(LoadBalancerIngress(ip="10.0.0.10"),)), conditions=conditions
        ),
    )


def endpoints(version: int, *, ready: bool) -> EndpointSlice:
    return EndpointSlice(
        metadata=ObjectMeta(
            name="web-1", namespace="default", resource_version=str(version), labels={SERVICE_NAME_LABEL: "web"}
        ),
        endpoints=(Endpoint(addresses=("10.1.0.1",), node_name="node1", conditions=EndpointConditions(ready=ready)),),
    )


@dataclass
class Api:
    """Lists of objects, and their later changes, by the plural names of their kinds."""

    lists: dict[str, list[Any]]
    changes: dict[str, asyncio.Queue[Any]] = field(default_factory=dict)

    async def list(self, kind: Any, *arguments: Any) -> Any:
        return ListResult(self.lists.get(kind.plural, []), ListMeta("1"))

    async def watch(self, kind: Any, *arguments: Any, **options: Any) -> AsyncGenerator[Any, None]:
        queue = self.changes.setdefault(kind.plural, asyncio.Queue())
        while True:
            yield WatchEvent("MODIFIED", await queue.get())

    async def change(self, kind: str, obj: Any) -> None:
        self.changes[kind].put_nowait(obj)
        await asyncio.sleep(0.001)


class World:
    """An `Announceability` that knows a Service and a node. `requests`: Services to judge again, and when."""

    def __init__(self, found: Service, *slices: EndpointSlice, configuration: Configuration | None = VALID) -> None:
        self._configuration = configuration
        self.api = Api({"services": [found], "nodes": [NODE], "endpointslices": list(slices)})
        self.requests: list[tuple[ObjectKey, float]] = []
        self._services: Informer[Service] = Informer(self.api, SERVICES)
        self._nodes: Informer[Node] = Informer(self.api, NODES)
        self.judge = Announceability(
            self.api,
            self._services,
            self._nodes,
            lambda key, seconds: self.requests.append((key, seconds)),
            lb_class="",
            ignore_exclude=False,
        )
        self._found = found

    async def __aenter__(self) -> World:
        self._tasks = [asyncio.create_task(part.run()) for part in (self._services, self._nodes, self.judge)]
        await self._services.wait_synced()
        await self.judge.wait_synced()
        await asyncio.sleep(0.001)
        if self._configuration is not None:
            self.judge.configure(self._configuration)
        self.requests.clear()
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    def reason(self) -> str:
        found = self.judge.judge(self._found)
        return "" if found is None else found.reason.value


def test_a_reason_counts_when_it_has_lasted():
    async def main() -> None:
        async with World(service()) as world:
            assert world.reason() == ""
            assert world.requests == [(KEY, PATIENCE_SECONDS)]
            await asyncio.sleep(PATIENCE_SECONDS - 0.1)
            assert world.reason() == ""
            await asyncio.sleep(0.1)
            assert world.reason() == "NoEndpoints"

            world.requests.clear()
            await world.api.change("endpointslices", endpoints(2, ready=True))
            assert world.requests == [(KEY, 0)]
            assert world.reason() == ""

            # A gap during a rollout is too short.
            await world.api.change("endpointslices", endpoints(3, ready=False))
            assert world.reason() == ""
            await world.api.change("endpointslices", endpoints(4, ready=True))
            assert world.reason() == ""

    run_virtual(main())


def test_a_condition_of_an_earlier_process_stays():
    async def main() -> None:
        async with World(service("NoEndpoints")) as world:
            assert world.reason() == "NoEndpoints"
        async with World(service("NoPool")) as world:
            assert world.reason() == "", "it has had an address only now"

    run_virtual(main())


def test_changes_of_nodes_count_and_repetitions_do_not():
    async def main() -> None:
        async with World(service(), endpoints(1, ready=True)) as world:
            assert world.reason() == ""
            await world.api.change("nodes", Node(metadata=ObjectMeta(name="node1", resource_version="2")))
            await world.api.change("endpointslices", endpoints(2, ready=True))
            assert world.requests == []
            await world.api.change("nodes", EXCLUDED)
            assert world.requests == [(KEY, 0)]
            assert world.reason() == ""
            await asyncio.sleep(PATIENCE_SECONDS)
            assert world.reason() == "NoNode"
            world.judge.forget(KEY)
            assert world.reason() == "", "a new address has its own time"

    run_virtual(main())


def test_a_pool_that_speakers_do_not_know_is_announced_by_no_node():
    async def main() -> None:
        async with World(service(), endpoints(1, ready=True)) as world:
            world.judge.configure(Configuration())
            assert world.reason() == "", "the address is of no pool; the allocator takes it back"
            world.judge.refuse("peer a is not valid")
            world.reason()
            await asyncio.sleep(PATIENCE_SECONDS)
            assert world.reason() == "InvalidConfiguration"
            world.judge.configure(VALID)
            assert world.reason() == ""
            # The last valid configuration decides what speakers do with pools that they know.
            world.judge.refuse("peer a is not valid")
            await asyncio.sleep(PATIENCE_SECONDS)
            assert world.reason() == ""

    run_virtual(main())


def test_a_controller_that_knows_no_valid_configuration_blames_none():
    async def main() -> None:
        async with World(service(), endpoints(1, ready=True), configuration=None) as world:
            world.judge.refuse("peer a is not valid")
            world.reason()
            await asyncio.sleep(PATIENCE_SECONDS)
            assert world.reason() == "", "speakers may have begun with a valid one"

    run_virtual(main())


def test_services_are_checked_once_for_many_nodes():
    async def main() -> None:
        async with World(service(), endpoints(1, ready=True)) as world:
            for name in ("node1", "node2", "node3"):
                meta = ObjectMeta(name=name, resource_version="9", labels=EXCLUDED.metadata.labels)
                world.api.changes["nodes"].put_nowait(Node(metadata=meta))
            await asyncio.sleep(0.001)
            assert world.requests == [(KEY, 0)]

    run_virtual(main())

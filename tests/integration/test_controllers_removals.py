"""Objects that are removed while a controller looks at them or at their owner: no traceback, nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from bridgehead.client import ApiClient, EventRecorder
from bridgehead.controllers.autoscaling.horizontal import HorizontalController
from bridgehead.controllers.disruption.budgets import DisruptionController
from bridgehead.controllers.scheduling.scheduler import Scheduler
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.kinds import (
    EVENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
)
from bridgehead.objects.meta import ObjectKey, find_condition

from .api_world import api_world, running, until_seen
from .test_controllers_stateful import claim, pod, stateful_set, storage_class

pytestmark = pytest.mark.integration


class Interrupted(ApiClient):
    """A client of controllers. `before(path)` is awaited before a request is sent."""

    before: Callable[[str], Awaitable[None]] | None = None

    async def request(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        if self.before is not None:
            await self.before(f"{method} {path}")
        return await super().request(method, path, **options)

    async def patch(self, kind: Any, name: str, namespace: str, *arguments: Any, **options: Any) -> Any:
        if self.before is not None:
            await self.before(f"PATCH {kind.path(namespace, name)}")
        return await super().patch(kind, name, namespace, *arguments, **options)


class World:
    def __init__(self, client: Interrupted, informers: Informers) -> None:
        self.client = client
        self.informers = informers

    def interrupt(self, request: str, kind: Any, name: str) -> asyncio.Event:
        """Delete an object, and wait until the informer lacks it, before the first such request is sent."""
        done = asyncio.Event()
        informer = self.informers.get(kind)

        async def before(sent: str) -> None:
            if sent == request and not done.is_set():
                await self.client.delete(kind, name, "default")
                await until_seen(lambda: informer.get(ObjectKey("default", name)) is None, informer)
                done.set()

        self.client.before = before
        return done


@contextlib.asynccontextmanager
async def world_of(*controllers: Callable[..., Any]) -> AsyncIterator[World]:
    async with api_world() as world, Interrupted(world.config) as client:
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": "default"}})
        informers = Informers(client)
        recorder = EventRecorder(client, "test")
        parts = [one(client, informers, recorder) for one in controllers]
        informers.get(EVENTS)
        async with running(*(part.run() for part in (informers, recorder, *parts))):
            await informers.wait_synced()
            yield World(client, informers)


@pytest.fixture(autouse=True)
def no_errors_are_logged(caplog: pytest.LogCaptureFixture):
    yield
    assert [record.getMessage() for record in caplog.get_records("call") if record.levelno >= logging.ERROR] == []


async def test_the_pods_of_a_budget_outlive_their_stateful_set():
    async with world_of(DisruptionController) as world:
        client = world.client
        owner = await client.create(STATEFUL_SETS, stateful_set(replicas=1))
        reference = {
            "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": owner.metadata.uid, "controller": True,
        }  # fmt: skip
        spec = {"containers": [{"name": "c", "image": "a:1"}]}
        metadata = {"name": "db-0", "namespace": "default", "labels": {"app": "db"}, "ownerReferences": [reference]}
        await client.create(PODS, {"metadata": metadata, "spec": spec})
        budget = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "db"}}}
        await client.create(
            POD_DISRUPTION_BUDGETS, {"metadata": {"name": "db", "namespace": "default"}, "spec": budget}
        )
        budgets, events = world.informers.get(POD_DISRUPTION_BUDGETS), world.informers.get(EVENTS)

        def reason() -> str:
            condition = None
            if found := budgets.get(ObjectKey("default", "db")):
                condition = find_condition(found.status.conditions, "DisruptionAllowed")
            return condition.reason if condition is not None else ""

        await until_seen(lambda: reason() == "InsufficientPods", budgets)
        await client.delete(STATEFUL_SETS, "db", "default", propagation_policy="Background")
        await client.patch(PODS, "db-0", "default", {"metadata": {"labels": {"changed": "yes"}}})
        expected = 'Failed to calculate the number of expected pods: found no controllers for pod "db-0"'
        await until_seen(lambda: expected in [event.message for event in events.items()], events)
        await until_seen(lambda: reason() == "SyncFailed", budgets)
        await client.delete(PODS, "db-0", "default")
        await until_seen(lambda: reason() == "InsufficientPods", budgets)


async def test_a_pod_is_removed_while_its_claim_is_written():
    async with world_of(Scheduler) as world:
        client = world.client
        await client.create(STORAGE_CLASSES, storage_class())
        await client.create(NODES, {"metadata": {"name": "node1"}})
        conditions = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "conditions": conditions}
        await client.patch(NODES, "node1", "", {"status": status}, subresource="status")
        removed = world.interrupt(f"PATCH {PERSISTENT_VOLUME_CLAIMS.path('default', 'data')}", PODS, "user")
        await client.create(PERSISTENT_VOLUME_CLAIMS, claim())
        await client.create(PODS, pod())
        await removed.wait()
        # The next pod shows that the scheduler goes on.
        spec = {"containers": [{"name": "c", "image": "a:1"}]}
        await client.create(PODS, {"metadata": {"name": "next", "namespace": "default"}, "spec": spec})
        pods = world.informers.get(PODS)
        await until_seen(
            lambda: (found := pods.get(ObjectKey("default", "next"))) is not None and found.spec.node_name, pods
        )


def autoscaler(name: str, minimum: int) -> dict[str, Any]:
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
    }
    target = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": minimum, "maxReplicas": 5, "metrics": [metric]}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


@pytest.mark.parametrize("verb", ["GET", "PUT"])
async def test_an_autoscaler_is_removed_while_its_target_is_read_or_scaled(verb):
    async with world_of(HorizontalController) as world:
        client = world.client
        spec = {"containers": [{"name": "c", "image": "a:1"}]}
        template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
        selector = {"matchLabels": {"app": "web"}}
        await client.create(
            REPLICA_SETS,
            {
                "metadata": {"name": "web", "namespace": "default"},
                "spec": {"replicas": 1, "selector": selector, "template": template},
            },
        )
        metadata = {"name": "web-0", "namespace": "default", "labels": {"app": "web"}}
        await client.create(PODS, {"metadata": metadata, "spec": spec})
        removed = world.interrupt(
            f"{verb} {REPLICA_SETS.path('default', 'web', 'scale')}", HORIZONTAL_POD_AUTOSCALERS, "one"
        )
        await client.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler("one", minimum=1 if verb == "GET" else 2))
        await removed.wait()
        # The selector of the first autoscaler is forgotten: the second one is not its rival.
        await client.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler("two", minimum=1))
        autoscalers = world.informers.get(HORIZONTAL_POD_AUTOSCALERS)

        def reason() -> str:
            found = autoscalers.get(ObjectKey("default", "two"))
            condition = find_condition(found.status.conditions, "ScalingActive") if found is not None else None
            return condition.reason if condition is not None else ""

        assert await until_seen(reason, autoscalers) == "FailedGetResourceMetric"

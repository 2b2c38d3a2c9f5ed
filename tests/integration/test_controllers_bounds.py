"""Workloads with the largest numbers that the API accepts: bounded batches, and other objects do not wait for them."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any

import pytest

from bridgehead.client import ApiClient, EventRecorder
from bridgehead.controllers.jobs.job_controller import JobController
from bridgehead.controllers.shared_informers import Informers
from bridgehead.controllers.stateful.statefulset_controller import StatefulSetController
from bridgehead.controllers.workloads import bursts
from bridgehead.controllers.workloads.deployment_controller import DeploymentController
from bridgehead.controllers.workloads.replicaset_controller import ReplicaSetController, ReplicationControllerController
from bridgehead.objects.kinds import (
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
)

from .api_world import api_world, running, until_seen

pytestmark = pytest.mark.integration

LARGEST = 2**31 - 1
NOW = 1_800_000_000.0
BATCH = 20
CONTROLLERS: tuple[Any, ...] = (
    *(DeploymentController, ReplicaSetController, ReplicationControllerController),
    *(StatefulSetController, JobController),
)


def workloads(name: str, count: int, start: int) -> list[tuple[Any, dict[str, Any]]]:
    """A workload of each kind, which wants `count` pods with its name as their label `app`."""

    def of(kind: Any, suffix: str, *, labels: bool = True, **spec: Any) -> tuple[Any, dict[str, Any]]:
        app = f"{name}-{suffix}"
        pod: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}]}
        if kind is JOBS:
            pod["restartPolicy"] = "Never"
        template = {"metadata": {"labels": {"app": app}}, "spec": pod}
        if labels:
            spec["selector"] = {"app": app} if kind is REPLICATION_CONTROLLERS else {"matchLabels": {"app": app}}
        return kind, {"metadata": {"name": app, "namespace": "default"}, "spec": {"template": template, **spec}}

    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": LARGEST, "maxUnavailable": LARGEST}}
    limits = {"backoffLimitPerIndex": LARGEST, "maxFailedIndexes": min(count, 10_000)}
    return [
        of(REPLICA_SETS, "rs", replicas=count),
        of(REPLICATION_CONTROLLERS, "rc", replicas=count),
        of(DEPLOYMENTS, "deployment", replicas=count, strategy=rolling, revisionHistoryLimit=LARGEST),
        of(STATEFUL_SETS, "set", replicas=count, podManagementPolicy="Parallel", ordinals={"start": start}),
        of(JOBS, "job", labels=False, completions=count, parallelism=count, backoffLimit=LARGEST),
        of(JOBS, "indexed", labels=False, completions=min(count, 100_000), parallelism=min(count, 10_000),
           completionMode="Indexed", **limits),
    ]  # fmt: skip


def test_the_largest_workloads_get_one_batch_and_small_ones_do_not_wait_for_them(monkeypatch):
    monkeypatch.setattr(bursts, "BURST", BATCH)

    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            world = await stack.enter_async_context(api_world())
            client = await stack.enter_async_context(ApiClient(world.config))
            informers = Informers(client)
            pods = informers.get(PODS)
            # The clock stands still, so that no second batch may begin.
            controllers = [
                one(client, informers, EventRecorder(client, one.__name__), clock=lambda: NOW) for one in CONTROLLERS
            ]
            await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": "default"}})
            await stack.enter_async_context(running(*(one.run() for one in (informers, *controllers))))
            await informers.wait_synced()

            def count(name: str) -> Counter[str]:
                apps = (pod.metadata.labels.get("app", "") for pod in pods.items())
                return Counter(app for app in apps if app.startswith(name))

            large, small = workloads("large", LARGEST, start=LARGEST), workloads("small", 2, start=0)
            wanted = {obj["metadata"]["name"]: BATCH for _, obj in large}
            for kind, obj in large:
                await client.create(kind, obj)
            await until_seen(lambda: count("large") == wanted, pods)
            for kind, obj in small:
                await client.create(kind, obj)
            await until_seen(lambda: count("small") == {obj["metadata"]["name"]: 2 for _, obj in small}, pods)
            assert count("large") == wanted

    asyncio.run(main())

"""Cost of the barrier before SIGTERM.

Measures the time from the deletion of a pod until it is gone, with and without a Service, and the proxies' writes while
many pods are replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from bridgehead.client import ApiClient, Informer, load_kubeconfig
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import DEPLOYMENTS, LEASES, PODS, SERVICES
from bridgehead.objects.progress import NAMESPACE, SELECTOR

from .lab import BRIDGEHEAD, call

DELETIONS = 30
REPLICAS = 100


def run() -> list[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as directory:
        state = Path(directory) / "lab"
        lab = ("--name", "bench", "--state-dir", str(state))
        call(BRIDGEHEAD, "up", *lab, "--detach", "--ephemeral", "--offline")
        try:
            return asyncio.run(_measure(state / "kubeconfig"))
        finally:
            call(BRIDGEHEAD, "down", *lab)


async def _measure(kubeconfig: Path) -> list[tuple[str, str]]:
    async with ApiClient(load_kubeconfig(kubeconfig)) as client:
        for name in ("alone", "served", "many"):
            await client.create(DEPLOYMENTS, _deployment(name, REPLICAS if name == "many" else 3))
        for name in ("served", "many"):
            spec = {"selector": {"app": name}, "ports": [{"port": 80}]}
            await client.create(SERVICES, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        alone, served = [], []
        async with follow(client, "app=many") as (pods, changed):
            await until_ready(pods, changed, REPLICAS)
            writes = await _count_writes(client, pods, changed)
        async with follow(client, "app=alone") as (pods, changed):
            alone = [await _delete_one(client, pods, changed) for _ in range(DELETIONS)]
        async with follow(client, "app=served") as (pods, changed):
            served = [await _delete_one(client, pods, changed) for _ in range(DELETIONS)]
    return [
        (f"a pod's deletion to its end, no Service (median of {DELETIONS}), 3 nodes", _milliseconds(alone)),
        ("the same behind a Service, held until every proxy has let go of it", _milliseconds(served)),
        (f"writes of the 3 proxies' progress while {REPLICAS} pods are replaced", writes),
    ]


async def _delete_one(client: ApiClient, pods: Informer[Pod], changed: asyncio.Event) -> float:
    await until_ready(pods, changed, 3)
    pod = next(iter(pods.items()))
    began = time.perf_counter()
    await client.delete(PODS, pod.metadata.name, pod.metadata.namespace)
    await until(changed, lambda: pods.get(pod.key) is None)
    return time.perf_counter() - began


async def _count_writes(client: ApiClient, pods: Informer[Pod], changed: asyncio.Event) -> str:
    """Count writes while every pod is deleted once, through its Deployment."""
    leases = Informer(client, LEASES, NAMESPACE, SELECTOR)
    run = asyncio.create_task(leases.run())
    await leases.wait_synced()
    written: list[float] = []
    leases.on_change(lambda old, new: written.append(time.perf_counter()) if old is not None else None)
    old = {pod.metadata.uid for pod in pods.items()}
    began = time.perf_counter()
    annotation = {"metadata": {"annotations": {"restarted": "yes"}}}
    await client.patch(DEPLOYMENTS, "many", "default", {"spec": {"template": annotation}})
    await until(changed, lambda: not old & {pod.metadata.uid for pod in pods.items()})
    took = time.perf_counter() - began
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    return f"{len(written) / took:.0f}/s over {took:.1f} s"


@contextlib.asynccontextmanager
async def follow(client: ApiClient, selector: str) -> AsyncIterator[tuple[Informer[Pod], asyncio.Event]]:
    pods = Informer(client, PODS, "default", selector)
    changed = asyncio.Event()
    pods.on_change(lambda old, new: changed.set())
    run = asyncio.create_task(pods.run())
    await pods.wait_synced()
    yield pods, changed
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)


async def until_ready(pods: Informer[Pod], changed: asyncio.Event, count: int) -> None:
    await until(
        changed, lambda: len(pods) == count and all(pod.is_ready and not pod.is_terminating for pod in pods.items())
    )


async def until(changed: asyncio.Event, condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(300):
        while not condition():
            changed.clear()
            await changed.wait()


def _deployment(name: str, replicas: int) -> dict[str, object]:
    labels = {"app": name}
    pod = {"containers": [{"name": "web", "image": "nginx"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _milliseconds(values: list[float]) -> str:
    return f"{statistics.median(values) * 1000:.0f} ms ({min(values) * 1000:.0f} to {max(values) * 1000:.0f})"

"""The kubelet's pages of metrics: counts that its parts recorded, and measurements at the time of a request.

A measurement looks at all processes of the node once, and is shown for a second: scrapers ask for several pages.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from bridgehead.client.metrics import CLIENT_METRICS
from bridgehead.exposition.common_metrics import new_registry
from bridgehead.exposition.formats import Families, render
from bridgehead.kubelet.containers.resource_limits import plan_limits
from bridgehead.kubelet.metrics import process_scan
from bridgehead.kubelet.metrics.operations import KubeletMetrics, ProbeMetrics
from bridgehead.kubelet.metrics.pods import ClaimUse, claim_families, pod_families, volume_families
from bridgehead.kubelet.metrics.resource_usage import NODE, Usage, UsageTracker
from bridgehead.kubelet.metrics.resources import ContainerUse, NodeUse, PodNetwork, cadvisor_families, resource_families
from bridgehead.kubelet.runtimes.runtime import ContainerInfo, Limits, Runtime
from bridgehead.objects.core import Container, Pod

_SHOWN_SECONDS: Final = 1.0

Rendered = tuple[bytes, str]
# Takes an Accept header; returns the content and its Content-Type.
MetricsPage = Callable[[str], Awaitable[Rendered]]


class Measured(Protocol):
    """The kubelet, as the pages need it. `claims` yields namespace, claim and path of claims' volumes."""

    @property
    def node_name(self) -> str: ...
    @property
    def runtime(self) -> Runtime: ...
    def pods(self) -> list[Pod]: ...
    def claims(self) -> Iterable[tuple[str, str, str]]: ...


class MetricsPages:
    """The pages, `by_path`. Pages that need the runtime raise `RuntimeFailure`."""

    def __init__(self, kubelet: Measured, metrics: KubeletMetrics, probes: ProbeMetrics) -> None:
        self._kubelet = kubelet
        self._own = new_registry(metrics, CLIENT_METRICS)
        self._probes = CollectorRegistry()
        self._probes.register(probes)
        self._tracker = UsageTracker()
        self._measuring: asyncio.Task[NodeUse] | None = None
        self._last: NodeUse | None = None
        self._healthy = 0
        self.by_path: Mapping[str, MetricsPage] = {
            "/metrics": self.metrics,
            "/metrics/cadvisor": self.cadvisor,
            "/metrics/probes": self.probes,
            "/metrics/resource": self.resource,
            "/metrics/slis": self.slis,
        }

    async def metrics(self, accept: str) -> Rendered:
        pods = self._kubelet.pods()
        claims = await asyncio.to_thread(_measure_claims, list(self._kubelet.claims()))
        families = [
            *pod_families(self._kubelet.node_name, pods),
            *volume_families(pods),
            *claim_families(claims),
            *self._own.collect(),
        ]
        return render(Families(families), accept)

    async def resource(self, accept: str) -> Rendered:
        return render(Families(resource_families(await self._measure())), accept)

    async def cadvisor(self, accept: str) -> Rendered:
        return render(Families(cadvisor_families(await self._measure())), accept)

    async def probes(self, accept: str) -> Rendered:
        return render(self._probes, accept)

    async def slis(self, accept: str) -> Rendered:
        """Return the results of /healthz: a kubelet that answers is healthy."""
        self._healthy += 1
        last = GaugeMetricFamily(
            "kubernetes_healthcheck", "Whether a health check succeeded the last time.", labels=["name", "type"]
        )
        counts = CounterMetricFamily(
            "kubernetes_healthchecks_total", "Results of health checks.", labels=["name", "status", "type"]
        )
        for name in ("ping", "syncloop"):
            last.add_metric([name, "healthz"], 1)
            counts.add_metric([name, "success", "healthz"], self._healthy)
        return render(Families([last, counts]), accept)

    async def _measure(self) -> NodeUse:
        """Return a measurement, which goes on when a scraper leaves: a thread cannot be cancelled."""
        if self._measuring is None or self._measuring.done():
            self._measuring = asyncio.create_task(self._update())
        return await asyncio.shield(self._measuring)

    async def _update(self) -> NodeUse:
        if self._last is None or time.time() - self._last.at > _SHOWN_SECONDS:
            containers = await self._kubelet.runtime.list_containers()
            self._last = await asyncio.to_thread(self._look, containers, self._kubelet.pods())
        return self._last

    def _look(self, containers: Sequence[ContainerInfo], pods: Sequence[Pod]) -> NodeUse:
        running = [one for one in containers if one.state == "running" and one.pid]
        usages = self._tracker.update(process_scan.scan(), {one.pid: one.id for one in running})
        pod_of = {pod.metadata.uid: pod for pod in pods}
        return NodeUse(
            at=time.time(),
            node=usages[NODE],
            containers=tuple(
                _use_of(one, pod_of[one.pod_uid], usages[one.id])
                for one in running
                if one.id in usages and one.pod_uid in pod_of
            ),
            networks=tuple(_networks(running, pod_of)),
            machine_cores=os.cpu_count() or 1,
            machine_memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        )


def _use_of(container: ContainerInfo, pod: Pod, usage: Usage) -> ContainerUse:
    spec = next((one for one in _containers_of(pod) if one.name == container.name), None)
    limits = plan_limits(pod, spec, {}) if spec is not None else Limits()
    return ContainerUse(
        namespace=pod.metadata.namespace,
        pod=pod.metadata.name,
        pod_uid=container.pod_uid,
        name=container.name,
        id=container.id,
        image=container.image.name,
        started_at=container.started_at,
        usage=usage,
        memory_limit=limits.memory or 0,
        cpu_limit=limits.cpu_millis or 0,
        cpu_request=limits.cpu_request_millis,
    )


def _containers_of(pod: Pod) -> Iterator[Container]:
    yield from pod.spec.init_containers
    yield from pod.spec.containers
    yield from pod.spec.ephemeral_containers


def _networks(running: Iterable[ContainerInfo], pods: Mapping[str, Pod]) -> Iterator[PodNetwork]:
    """Yield the interfaces of pods with a network of their own, as one of their containers sees them."""
    seen = set()
    for container in running:
        pod = pods.get(container.pod_uid)
        if pod is None or pod.spec.host_network or container.pod_uid in seen:
            continue
        seen.add(container.pod_uid)
        yield PodNetwork(
            namespace=pod.metadata.namespace,
            pod=pod.metadata.name,
            pod_uid=container.pod_uid,
            interfaces=tuple(process_scan.read_interfaces(container.pid)),
        )


def _measure_claims(claims: Iterable[tuple[str, str, str]]) -> list[ClaimUse]:
    """Measure the file systems of claims: namespace, claim and path."""
    found = {}
    for namespace, claim, path in claims:
        with contextlib.suppress(OSError):
            disk = os.statvfs(path)
            found[namespace, claim] = ClaimUse(
                namespace=namespace,
                claim=claim,
                capacity=disk.f_blocks * disk.f_frsize,
                available=disk.f_bavail * disk.f_frsize,
                used=(disk.f_blocks - disk.f_bfree) * disk.f_frsize,
                inodes=disk.f_files,
                inodes_free=disk.f_ffree,
            )
    return list(found.values())

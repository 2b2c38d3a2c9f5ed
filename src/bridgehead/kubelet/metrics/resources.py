"""Usage as families: /metrics/resource, and cAdvisor's /metrics/cadvisor.

Pure: no I/O, no clock, no randomness. Source: kubelet `pkg/kubelet/metrics/collectors/resource_metrics.go`, cAdvisor
`metrics/prometheus.go`. Values that processes do not show (page cache, throttled periods, devices) are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from .process_scan import Interface
from .resource_usage import Usage

_LABELS: Final = ("container", "namespace", "pod")
_CADVISOR_LABELS: Final = ("container", "id", "image", "name", "namespace", "pod")


class ContainerUse(msgspec.Struct, frozen=True, kw_only=True):
    """A running container and its use of resources. `memory_limit` is in bytes, `cpu_limit` in thousandths; 0: none."""

    namespace: str
    pod: str
    pod_uid: str
    name: str
    id: str
    image: str
    started_at: float
    usage: Usage
    memory_limit: int = 0
    cpu_limit: int = 0
    cpu_request: int = 0


class PodNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """The interfaces of a pod with a network of its own."""

    namespace: str
    pod: str
    pod_uid: str
    interfaces: tuple[Interface, ...]


class NodeUse(msgspec.Struct, frozen=True, kw_only=True):
    """The use of a node and its containers, at `at` (seconds since the epoch)."""

    at: float
    node: Usage
    containers: tuple[ContainerUse, ...]
    networks: tuple[PodNetwork, ...]
    machine_cores: int
    machine_memory: int


def resource_families(use: NodeUse) -> Iterator[Metric]:
    """Yield the families of /metrics/resource."""
    pods: dict[tuple[str, str], list[Usage]] = {}
    for one in use.containers:
        pods.setdefault((one.namespace, one.pod), []).append(one.usage)

    def of_containers(name: str, text: str, value: Callable[[ContainerUse], float]) -> Metric:
        return _family(
            name, text, _LABELS, (((one.name, one.namespace, one.pod), value(one)) for one in use.containers)
        )

    def of_pods(name: str, text: str, value: Callable[[Usage], float]) -> Metric:
        return _family(name, text, _LABELS[1:], ((key, sum(map(value, its))) for key, its in pods.items()))

    def of_node(name: str, text: str, value: Callable[[Usage], float]) -> Metric:
        return _family(name, text, (), (((), value(use.node)),))

    cpu, memory, swap = _cpu, _resident, _swapped
    yield of_containers(
        "container_cpu_usage_seconds_total",
        "Cumulative cpu time consumed by the container in core-seconds",
        lambda one: cpu(one.usage),
    )
    yield of_containers(
        "container_memory_working_set_bytes",
        "Current working set of the container in bytes",
        lambda one: memory(one.usage),
    )
    yield of_containers(
        "container_start_time_seconds",
        "Start time of the container since unix epoch in seconds",
        lambda one: one.started_at,
    )
    yield of_containers(
        "container_swap_usage_bytes", "Current amount of the container swap usage in bytes", lambda one: swap(one.usage)
    )
    yield of_node("node_cpu_usage_seconds_total", "Cumulative cpu time consumed by the node in core-seconds", cpu)
    yield of_node("node_memory_working_set_bytes", "Current working set of the node in bytes", memory)
    yield of_node("node_swap_usage_bytes", "Current swap usage of the node in bytes", swap)
    yield of_pods("pod_cpu_usage_seconds_total", "Cumulative cpu time consumed by the pod in core-seconds", cpu)
    yield of_pods("pod_memory_working_set_bytes", "Current working set of the pod in bytes", memory)
    yield of_pods("pod_swap_usage_bytes", "Current amount of the pod swap usage in bytes", swap)
    yield GaugeMetricFamily(
        "resource_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise", 0
    )


def cadvisor_families(use: NodeUse) -> Iterator[Metric]:
    """Yield the families of /metrics/cadvisor: of containers, of pods (container ""), and of the node (id "/")."""
    rows = list(_rows(use))

    def family(name: str, text: str, value: Callable[[Usage], float], more: Mapping[str, str] | None = None) -> Metric:
        labels, values = (*_CADVISOR_LABELS, *(more or {})), tuple((more or {}).values())
        return _family(name, text, labels, (((*row, *values), value(usage)) for row, usage in rows))

    yield family(
        "container_cpu_usage_seconds_total", "Cumulative cpu time consumed in seconds.", _cpu, {"cpu": "total"}
    )
    yield family(
        "container_cpu_user_seconds_total",
        "Cumulative user cpu time consumed in seconds.",
        lambda one: one.user_seconds,
    )
    yield family(
        "container_cpu_system_seconds_total",
        "Cumulative system cpu time consumed in seconds.",
        lambda one: one.system_seconds,
    )
    yield family(
        "container_memory_usage_bytes",
        "Current memory usage in bytes, including all memory regardless of when it was accessed",
        _resident,
    )
    yield family("container_memory_working_set_bytes", "Current working set in bytes.", _resident)
    yield family("container_memory_rss", "Size of RSS in bytes.", lambda one: one.anonymous)
    yield family("container_memory_swap", "Container swap usage in bytes.", _swapped)
    yield family("container_processes", "Number of processes running inside the container.", lambda one: one.processes)
    yield family("container_threads", "Number of threads running inside the container", lambda one: one.threads)
    device = {"device": ""}
    yield family("container_fs_reads_bytes_total", "Cumulative count of bytes read", lambda one: one.read_bytes, device)
    yield family(
        "container_fs_writes_bytes_total", "Cumulative count of bytes written", lambda one: one.written_bytes, device
    )
    yield from _specifications(use)
    yield from _networks(use)
    yield GaugeMetricFamily("machine_cpu_cores", "Number of logical CPU cores.", use.machine_cores)
    yield GaugeMetricFamily("machine_memory_bytes", "Amount of memory installed on the machine.", use.machine_memory)


def _rows(use: NodeUse) -> Iterator[tuple[tuple[str, ...], Usage]]:
    pods: dict[tuple[str, str, str], Usage] = {}
    for one in use.containers:
        yield _row(one), one.usage
        pod = pods.setdefault((one.namespace, one.pod, one.pod_uid), Usage())
        for field in Usage.__struct_fields__:
            setattr(pod, field, getattr(pod, field) + getattr(one.usage, field))
    for (namespace, name, uid), usage in pods.items():
        yield ("", _pod_id(uid), "", "", namespace, name), usage
    yield ("", "/", "", "", "", ""), use.node


def _row(one: ContainerUse) -> tuple[str, ...]:
    return one.name, f"{_pod_id(one.pod_uid)}/{one.id}", one.image, one.id, one.namespace, one.pod


def _pod_id(uid: str) -> str:
    return f"/kubepods/pod{uid}"


def _specifications(use: NodeUse) -> Iterator[Metric]:
    """Yield the limits of containers; as in cAdvisor, one without a limit has none of the CPU's."""

    def family(name: str, text: str, values: Iterable[tuple[ContainerUse, float]]) -> Metric:
        return _family(name, text, _CADVISOR_LABELS, ((_row(one), value) for one, value in values))

    containers = use.containers
    yield family(
        "container_last_seen", "Last time a container was seen by the exporter", ((one, use.at) for one in containers)
    )
    yield family(
        "container_start_time_seconds",
        "Start time of the container since unix epoch in seconds.",
        ((one, one.started_at) for one in containers),
    )
    yield family(
        "container_spec_memory_limit_bytes",
        "Memory limit for the container.",
        ((one, one.memory_limit) for one in containers),
    )
    yield family(
        "container_spec_cpu_shares",
        "CPU share of the container.",
        ((one, max(2, one.cpu_request * 1024 // 1000)) for one in containers),
    )
    yield family(
        "container_spec_cpu_quota",
        "CPU quota of the container.",
        ((one, one.cpu_limit * 100) for one in containers if one.cpu_limit),
    )
    yield family(
        "container_spec_cpu_period",
        "CPU period of the container.",
        ((one, 100_000) for one in containers if one.cpu_limit),
    )


def _networks(use: NodeUse) -> Iterator[Metric]:
    labels = (*_CADVISOR_LABELS, "interface")
    for direction, verb in (("receive", "received"), ("transmit", "sent")):
        for unit, text in (
            ("bytes", f"bytes {verb}"),
            ("packets", f"packets {verb}"),
            ("errors", f"errors while {verb}"),
            ("packets_dropped", f"packets dropped while {verb}"),
        ):
            field = f"{verb}_{unit.removeprefix('packets_')}"
            yield _family(
                f"container_network_{direction}_{unit}_total",
                f"Cumulative count of {text}",
                labels,
                (
                    (("", _pod_id(pod.pod_uid), "", "", pod.namespace, pod.pod, one.name), getattr(one, field))
                    for pod in use.networks
                    for one in pod.interfaces
                ),
            )


def _cpu(usage: Usage) -> float:
    return usage.cpu_seconds


def _resident(usage: Usage) -> float:
    return usage.resident


def _swapped(usage: Usage) -> float:
    return usage.swapped


def _family(name: str, text: str, labels: Iterable[str], values: Iterable[tuple[Iterable[str], float]]) -> Metric:
    make = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    family = make(name, text, labels=tuple(labels))
    for row, value in values:
        family.add_metric(tuple(row), value)
    return family

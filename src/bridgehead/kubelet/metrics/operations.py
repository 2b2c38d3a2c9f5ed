"""Counts and durations that the kubelet's parts record.

Pure: no I/O, no clock, no randomness. Source: kubelet `pkg/kubelet/metrics/metrics.go`, `pkg/kubelet/prober`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from bridgehead.exposition.numbers import Histograms, Labels, counter_family

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_START_SECONDS: Final = (
    *(0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600),
)
# The runtime's calls under the names that the kubelet has for those of the CRI.
_OPERATIONS: Final = {
    "FindFeatures": "status",
    "FindImage": "image_status",
    "RunSandbox": "run_podsandbox",
    "UpdateSandbox": "update_podsandbox_resources",
    "RemoveSandbox": "remove_podsandbox",
    "ListSandboxes": "list_podsandbox",
    "StartContainer": "start_container",
    "UpdateContainer": "update_container",
    "SignalContainer": "stop_container",
    "MeasureLayers": "container_stats",
    "ListContainers": "list_containers",
    "Exec": "exec_sync",
    "OpenExec": "exec",
    "Attach": "attach",
    "OpenPort": "port_forward",
}


class KubeletMetrics(Collector):
    """Counts and durations since the kubelet started, in plain numbers."""

    def __init__(self) -> None:
        self._operations: dict[Labels, float] = {}
        self._failed_operations: dict[Labels, float] = {}
        self._operation_seconds = Histograms(
            "kubelet_runtime_operations_duration_seconds",
            "Duration in seconds of runtime operations. Broken down by operation type.",
            ["operation_type"],
            tuple(0.005 * 2.5**power for power in range(14)),
        )
        self._sync_seconds = Histograms(
            "kubelet_pod_worker_duration_seconds",
            "Duration in seconds to sync a single pod. Broken down by operation type: create, update, or sync",
            ["operation_type"],
            _SECONDS,
        )
        self._start_seconds = Histograms(
            "kubelet_pod_start_duration_seconds",
            "Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run",
            [],
            _START_SECONDS,
        )
        self._start_seconds.of(())
        self._pull_seconds = Histograms(
            "kubelet_image_pull_duration_seconds",
            "Duration in seconds to pull an image.",
            ["image_size_in_bytes"],
            (1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600),
        )
        self._pods: dict[Labels, float] = {(): 0}
        self._containers: dict[Labels, float] = {}
        self._failed_containers: dict[Labels, float] = {}
        self._evictions: dict[Labels, float] = {}

    def record_operation(self, call: str, seconds: float, has_failed: bool) -> None:
        """Record a call of the runtime, by the name of its message."""
        labels = (_OPERATIONS.get(call, call),)
        self._operations[labels] = self._operations.get(labels, 0) + 1
        self._operation_seconds.of(labels).observe(seconds)
        if has_failed:
            self._failed_operations[labels] = self._failed_operations.get(labels, 0) + 1

    def record_sync(self, kind: str, seconds: float) -> None:
        """Record that a pod was brought a step towards what it should be: `create`, `sync` or `update`."""
        self._sync_seconds.of((kind,)).observe(seconds)

    def record_pod_started(self, seconds: float) -> None:
        """Record that all containers of a pod run for the first time, so long after the kubelet saw the pod."""
        self._start_seconds.of(()).observe(seconds)

    def record_pod(self) -> None:
        """Record that a pod was begun."""
        self._pods[()] += 1

    def record_container(self, kind: str, *, failure: str = "") -> None:
        """Record the start of a container: `container`, `init_container` or `ephemeral_container`."""
        labels = (kind,)
        self._containers[labels] = self._containers.get(labels, 0) + 1
        if failure:
            failed = (kind, failure)
            self._failed_containers[failed] = self._failed_containers.get(failed, 0) + 1

    def record_pull(self, seconds: float, size: int) -> None:
        """Record a pull of an image of `size` bytes."""
        self._pull_seconds.of((_size_class(size),)).observe(seconds)

    def record_eviction(self, signal: str) -> None:
        labels = (signal,)
        self._evictions[labels] = self._evictions.get(labels, 0) + 1

    def collect(self) -> Iterator[Metric]:
        operation = ["operation_type"]
        yield counter_family(
            "kubelet_runtime_operations_total",
            "Cumulative number of runtime operations by operation type.",
            operation,
            self._operations,
        )
        yield counter_family(
            "kubelet_runtime_operations_errors_total",
            "Cumulative number of runtime operation errors by operation type.",
            operation,
            self._failed_operations,
        )
        yield self._operation_seconds.family()
        yield self._sync_seconds.family()
        yield self._start_seconds.family()
        yield self._pull_seconds.family()
        yield counter_family("kubelet_started_pods_total", "Cumulative number of pods started", [], self._pods)
        yield counter_family(
            "kubelet_started_containers_total",
            "Cumulative number of containers started",
            ["container_type"],
            self._containers,
        )
        yield counter_family(
            "kubelet_started_containers_errors_total",
            "Cumulative number of errors when starting containers",
            ["container_type", "code"],
            self._failed_containers,
        )
        yield counter_family(
            "kubelet_evictions",
            "Cumulative number of pod evictions by eviction signal",
            ["eviction_signal"],
            self._evictions,
        )


def _size_class(size: int) -> str:
    """Return the class of an image's size, as the kubelet's `getImageSizeBucket`."""
    mib = 1 << 20
    bounds = ((10, "0-10MB"), (100, "10MB-100MB"), (500, "100MB-500MB"), (1024, "500MB-1GB"), (5120, "1GB-5GB"))
    for bound, name in (*bounds, (10240, "5GB-10GB")):
        if size < bound * mib:
            return name
    return "GT10GB"


class ProbeMetrics(Collector):
    """The page /metrics/probes: results and durations by container, while its pod is on the node."""

    def __init__(self) -> None:
        self._results: dict[str, dict[Labels, float]] = {}
        self._seconds: dict[str, Histograms] = {}

    def record(
        self, namespace: str, pod: str, uid: str, container: str, kind: str, result: str, seconds: float
    ) -> None:
        """Record a probe: `kind` is Startup, Readiness or Liveness, `result` successful, failed or unknown.

        As in the kubelet, durations are not those of failed probes.
        """
        counts = self._results.setdefault(uid, {})
        labels = (container, namespace, pod, uid, kind, result)
        counts[labels] = counts.get(labels, 0) + 1
        histograms = self._seconds.get(uid)
        if histograms is None:
            histograms = self._seconds[uid] = Histograms(
                "prober_probe_duration_seconds",
                "Duration in seconds for a probe response.",
                ["container", "namespace", "pod", "probe_type"],
                _SECONDS,
            )
        if result != FAILED:
            histograms.of((container, namespace, pod, kind)).observe(seconds)

    def forget(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self._results.pop(uid, None)
        self._seconds.pop(uid, None)

    def collect(self) -> Iterator[Metric]:
        everything = {labels: count for counts in self._results.values() for labels, count in counts.items()}
        yield counter_family(
            "prober_probe_total",
            "Cumulative number of a liveness, readiness or startup probe for a container by result.",
            ["container", "namespace", "pod", "pod_uid", "probe_type", "result"],
            everything,
        )
        families = [one.family() for one in self._seconds.values()]
        if families:
            first, *others = families
            for other in others:
                first.samples += other.samples
            yield first


SUCCESSFUL, FAILED, UNKNOWN = "successful", "failed", "unknown"

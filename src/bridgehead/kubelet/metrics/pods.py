"""Pods, containers and volumes of a node as families of /metrics.

Pure: no I/O, no clock, no randomness. Source: kubelet `pkg/kubelet/metrics`, `pkg/kubelet/volumemanager/metrics`,
`pkg/kubelet/metrics/collectors/volume_stats.go`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from prometheus_client.core import GaugeMetricFamily, Metric

from bridgehead.objects.core import Pod, Volume

# Kubernetes' names of the plug-ins of volumes, by the field of a volume.
_PLUGINS: Final = {
    "config_map": "kubernetes.io/configmap",
    "secret": "kubernetes.io/secret",
    "empty_dir": "kubernetes.io/empty-dir",
    "host_path": "kubernetes.io/host-path",
    "downward_api": "kubernetes.io/downward-api",
    "projected": "kubernetes.io/projected",
    "persistent_volume_claim": "kubernetes.io/local-volume",
    "ephemeral": "kubernetes.io/local-volume",
    "image": "kubernetes.io/image",
    "csi": "kubernetes.io/csi",
}


class ClaimUse(msgspec.Struct, frozen=True, kw_only=True):
    """The file system of a claim's volume: sizes in bytes, numbers of inodes."""

    namespace: str
    claim: str
    capacity: int
    available: int
    used: int
    inodes: int
    inodes_free: int


def pod_families(node: str, pods: Sequence[Pod]) -> Iterator[Metric]:
    """Yield the families of pods and containers."""
    name = GaugeMetricFamily("kubelet_node_name", "The node's name. The count is always 1.", labels=["node"])
    name.add_metric([node], 1)
    yield name
    yield GaugeMetricFamily(
        "kubelet_running_pods",
        "Number of pods that have a running pod sandbox",
        sum(pod.status.phase == "Running" for pod in pods),
    )
    states: Counter[str] = Counter()
    for pod in pods:
        for container in pod.status.container_statuses or ():
            state = container.state
            states["running" if state.running else "exited" if state.terminated else "created"] += 1
    running = GaugeMetricFamily(
        "kubelet_running_containers", "Number of containers currently running", labels=["container_state"]
    )
    for each in sorted(states):
        running.add_metric([each], states[each])
    yield running


def volume_families(pods: Sequence[Pod]) -> Iterator[Metric]:
    """Yield the numbers of volumes that pods want, and of those that are set up."""
    total = GaugeMetricFamily(
        "volume_manager_total_volumes", "Number of volumes in Volume Manager", labels=["plugin_name", "state"]
    )
    wanted = Counter(plugin_of(volume) for pod in pods for volume in pod.spec.volumes)
    # Containers are made when all volumes are set up.
    ready = [pod for pod in pods if any(one.container_id for one in pod.status.container_statuses or ())]
    actual = Counter(plugin_of(volume) for pod in ready for volume in pod.spec.volumes)
    for state, counts in (("desired_state_of_world", wanted), ("actual_state_of_world", actual)):
        for plugin in sorted(counts):
            total.add_metric([plugin, state], counts[plugin])
    yield total


def plugin_of(volume: Volume) -> str:
    """Return Kubernetes' name of the plug-in for a volume."""
    return next((plugin for field, plugin in _PLUGINS.items() if getattr(volume, field) is not None), "unknown")


def claim_families(claims: Iterable[ClaimUse]) -> Iterator[Metric]:
    """Yield the use of claims' volumes."""
    found = list(claims)
    for name, text, field in (
        ("capacity_bytes", "Capacity in bytes of the volume", "capacity"),
        ("available_bytes", "Number of available bytes in the volume", "available"),
        ("used_bytes", "Number of used bytes in the volume", "used"),
        ("inodes", "Maximum number of inodes in the volume", "inodes"),
        ("inodes_free", "Number of free inodes in the volume", "inodes_free"),
    ):
        family = GaugeMetricFamily(f"kubelet_volume_stats_{name}", text, labels=["namespace", "persistentvolumeclaim"])
        for one in found:
            family.add_metric([one.namespace, one.claim], getattr(one, field))
        yield family
    used = GaugeMetricFamily(
        "kubelet_volume_stats_inodes_used",
        "Number of used inodes in the volume",
        labels=["namespace", "persistentvolumeclaim"],
    )
    for one in found:
        used.add_metric([one.namespace, one.claim], one.inodes - one.inodes_free)
    yield used

"""Pages of the kubelet's server about its node: pods, configuration, statistics.

Pure: no I/O, no clock, no randomness.
Source: kubelet `pkg/kubelet/server`, `pkg/kubelet/apis/stats/v1alpha1`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bridgehead.kubelet.node.settings import NodeSettings
from bridgehead.objects.core import Pod

Page = dict[str, Any]


def pod_list(pods: Iterable[Pod]) -> Page:
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list(pods)}


def configuration(settings: NodeSettings) -> Page:
    """Return the page /configz: the settings as a KubeletConfiguration."""
    return {
        "kubeletconfig": {
            "kind": "KubeletConfiguration",
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "address": settings.ip,
            "port": settings.port,
            "clusterDNS": list(settings.cluster_dns),
            "clusterDomain": settings.cluster_domain,
            "maxPods": settings.max_pods,
            "podCIDR": ",".join(settings.pod_cidrs),
            "imageGCHighThresholdPercent": settings.image_gc_high_threshold,
            "imageGCLowThresholdPercent": settings.image_gc_low_threshold,
            "imageMinimumGCAge": f"{settings.image_minimum_gc_age:g}s",
            "podPidsLimit": -1 if settings.pod_max_pids is None else settings.pod_max_pids,
        }
    }


def summary(settings: NodeSettings, pods: Iterable[Pod]) -> Page:
    """Return the page /stats/summary. The page names pods and containers; their use of resources is not measured."""
    return {
        "node": {"nodeName": settings.name},
        "pods": [
            {
                "podRef": {"name": pod.metadata.name, "namespace": pod.metadata.namespace, "uid": pod.metadata.uid},
                "startTime": pod.status.start_time,
                "containers": [
                    {"name": container.name, "startTime": container.state.running.started_at}
                    for container in pod.status.container_statuses or ()
                    if container.state.running is not None
                ],
            }
            for pod in pods
            if pod.status.start_time is not None
        ],
    }

"""Counts that the kubelet's parts record."""

from __future__ import annotations

import pytest
from prometheus_client.registry import Collector

from bridgehead.exposition.formats import render
from bridgehead.kubelet.metrics.operations import FAILED, SUCCESSFUL, UNKNOWN, KubeletMetrics, ProbeMetrics


def lines(collector: Collector) -> set[str]:
    return set(render(collector)[0].decode().splitlines())


def test_what_the_kubelet_did_has_kubernetes_names() -> None:
    metrics = KubeletMetrics()
    metrics.record_operation("StartContainer", 0.02, False)
    metrics.record_operation("StartContainer", 0.02, True)
    metrics.record_sync("sync", 0.001)
    metrics.record_pod()
    metrics.record_pod_started(1.5)
    metrics.record_container("container")
    metrics.record_container("init_container", failure="CreateContainerError")
    metrics.record_eviction("nodefs.available")
    assert {
        'kubelet_runtime_operations_total{operation_type="start_container"} 2.0',
        'kubelet_runtime_operations_errors_total{operation_type="start_container"} 1.0',
        'kubelet_runtime_operations_duration_seconds_count{operation_type="start_container"} 2.0',
        'kubelet_pod_worker_duration_seconds_count{operation_type="sync"} 1.0',
        'kubelet_pod_start_duration_seconds_bucket{le="2.0"} 1.0',
        "kubelet_started_pods_total 1.0",
        'kubelet_started_containers_total{container_type="container"} 1.0',
        'kubelet_started_containers_errors_total{code="CreateContainerError",container_type="init_container"} 1.0',
        'kubelet_evictions{eviction_signal="nodefs.available"} 1.0',
    } <= lines(metrics)


@pytest.mark.parametrize(
    ("size", "name"), [(1, "0-10MB"), (10 << 20, "10MB-100MB"), (2 << 30, "1GB-5GB"), (20 << 30, "GT10GB")]
)
def test_pulls_are_counted_by_the_size_of_the_image(size: int, name: str) -> None:
    metrics = KubeletMetrics()
    metrics.record_pull(3.0, size)
    assert f'kubelet_image_pull_duration_seconds_bucket{{image_size_in_bytes="{name}",le="5.0"}} 1.0' in lines(metrics)


def test_probes_are_counted_while_their_pod_is_there() -> None:
    metrics = ProbeMetrics()
    for result in (SUCCESSFUL, SUCCESSFUL, FAILED, FAILED, UNKNOWN):
        metrics.record("shop", "web-0", "u1", "web", "Readiness", result, 0.02)
    metrics.record("shop", "web-1", "u2", "web", "Liveness", SUCCESSFUL, 0.02)
    labels = 'container="web",namespace="shop",pod="web-0"'
    assert {
        f'prober_probe_total{{{labels},pod_uid="u1",probe_type="Readiness",result="successful"}} 2.0',
        f'prober_probe_total{{{labels},pod_uid="u1",probe_type="Readiness",result="failed"}} 2.0',
        f'prober_probe_duration_seconds_count{{{labels},probe_type="Readiness"}} 3.0',
    } <= lines(metrics)
    metrics.forget("u1")
    assert "web-1" in "".join(lines(metrics))
    assert "web-0" not in "".join(lines(metrics))
    metrics.forget("u2")
    assert "web" not in "".join(lines(metrics))

"""Families of pods, volumes and their use of resources."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from prometheus_client.core import Metric

from bridgehead.kubelet.metrics.pods import ClaimUse, claim_families, pod_families, volume_families
from bridgehead.kubelet.metrics.process_scan import Interface
from bridgehead.kubelet.metrics.resource_usage import Usage
from bridgehead.kubelet.metrics.resources import (
    ContainerUse,
    NodeUse,
    PodNetwork,
    cadvisor_families,
    resource_families,
)
from bridgehead.objects.core import Pod

STARTED = "2026-11-23T05:00:00Z"


def values(families: Iterable[Metric]) -> dict[tuple[str, ...], float]:
    """The values by name and by the labels that are not empty, in their order."""
    return {
        (sample.name, *(value for value in sample.labels.values() if value)): sample.value
        for family in families
        for sample in family.samples
    }


def pod(name, phase, state, **spec):
    status = {"name": "app", "image": "app:1", "imageID": "", "ready": True, "restartCount": 0, "state": state}
    if "waiting" not in state:
        status["containerID"] = "bridgehead://1"
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {"containers": [{"name": "app", "image": "app:1"}], **spec},
            "status": {"phase": phase, "containerStatuses": [status]},
        },
        Pod,
    )


PODS = [
    pod("web", "Running", {"running": {"startedAt": STARTED}}, volumes=[{"name": "a", "configMap": {"name": "x"}}]),
    pod("job", "Succeeded", {"terminated": {"exitCode": 0}}),
    pod("new", "Pending", {"waiting": {"reason": "ContainerCreating"}}, volumes=[{"name": "a", "emptyDir": {}}]),
]


def test_pods_and_containers_are_counted():
    assert values(pod_families("node1", PODS)) == {
        ("kubelet_node_name", "node1"): 1,
        ("kubelet_running_pods",): 1,
        ("kubelet_running_containers", "created"): 1,
        ("kubelet_running_containers", "exited"): 1,
        ("kubelet_running_containers", "running"): 1,
    }


def test_volumes_are_counted_by_plug_in():
    assert values(volume_families(PODS)) == {
        ("volume_manager_total_volumes", "kubernetes.io/configmap", "desired_state_of_world"): 1,
        ("volume_manager_total_volumes", "kubernetes.io/empty-dir", "desired_state_of_world"): 1,
        ("volume_manager_total_volumes", "kubernetes.io/configmap", "actual_state_of_world"): 1,
    }


def test_claims_show_their_file_system():
    use = ClaimUse(namespace="shop", claim="data", capacity=100, available=40, used=50, inodes=9, inodes_free=4)
    found = values(claim_families([use]))
    assert found["kubelet_volume_stats_capacity_bytes", "shop", "data"] == 100
    assert found["kubelet_volume_stats_available_bytes", "shop", "data"] == 40
    assert found["kubelet_volume_stats_inodes_used", "shop", "data"] == 5


def container(name: str, seconds: float, resident: int, **limits: int) -> ContainerUse:
    usage = Usage(user_seconds=seconds, system_seconds=1.0, resident=resident, anonymous=resident // 2, processes=1)
    return ContainerUse(
        namespace="shop", pod="web", pod_uid="u1", name=name, id=f"{name}-id", image="nginx", started_at=5.0,
        usage=usage, **limits,
    )  # fmt: skip


USE = NodeUse(
    at=100.0,
    node=Usage(user_seconds=9.0, resident=900),
    containers=(
        container("app", 2.0, 100, memory_limit=512, cpu_limit=1500, cpu_request=500),
        container("side", 3.0, 50),
    ),
    networks=(
        PodNetwork(
            namespace="shop",
            pod="web",
            pod_uid="u1",
            interfaces=(
                Interface(name="eth0", received_bytes=1, received_packets=2, received_errors=3, received_dropped=4,
                          sent_bytes=5, sent_packets=6, sent_errors=7, sent_dropped=8),
            ),
        ),
    ),
    machine_cores=2,
    machine_memory=1 << 30,
)  # fmt: skip


def test_use_is_summed_up_by_pod():
    found = values(resource_families(USE))
    assert found["container_cpu_usage_seconds_total", "app", "shop", "web"] == 3.0
    assert found["pod_cpu_usage_seconds_total", "shop", "web"] == 7.0
    assert found["pod_memory_working_set_bytes", "shop", "web"] == 150
    assert found["node_cpu_usage_seconds_total",] == 9.0
    assert found["container_start_time_seconds", "side", "shop", "web"] == 5.0
    assert found["resource_scrape_error",] == 0


def test_cadvisor_has_containers_pods_and_the_node():
    found = values(cadvisor_families(USE))
    app = ("app", "/kubepods/podu1/app-id", "nginx", "app-id", "shop", "web")
    assert found["container_cpu_usage_seconds_total", *app, "total"] == 3.0
    assert found["container_cpu_usage_seconds_total", "/kubepods/podu1", "shop", "web", "total"] == 7.0
    assert found["container_cpu_usage_seconds_total", "/", "total"] == 9.0
    assert found["container_memory_working_set_bytes", *app] == 100
    assert found["container_memory_rss", *app] == 50
    assert found["container_spec_memory_limit_bytes", *app] == 512
    assert found["container_spec_cpu_quota", *app] == 150_000
    assert found["container_spec_cpu_shares", *app] == 512
    assert not [key for key in found if key[0] == "container_spec_cpu_quota" and "side" in key]
    network = ("/kubepods/podu1", "shop", "web", "eth0")
    received = [found[f"container_network_receive_{unit}_total", *network] for unit in
                ("bytes", "packets", "errors", "packets_dropped")]  # fmt: skip
    assert received == [1, 2, 3, 4]
    assert found["container_network_transmit_packets_dropped_total", *network] == 8
    assert (found["machine_cpu_cores",], found["machine_memory_bytes",]) == (2, 1 << 30)

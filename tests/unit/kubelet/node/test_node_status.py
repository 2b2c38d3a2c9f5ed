"""The Node that a kubelet registers, and its status."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bridgehead.images.store.image_record import ImageRecord
from bridgehead.kubelet.node.node_status import (
    allocatable_resources,
    is_reported,
    node_images,
    node_object,
    node_status,
)
from bridgehead.kubelet.node.settings import NodeSettings
from bridgehead.objects.core import NodeStatus
from bridgehead.objects.meta import Condition

SETTINGS = NodeSettings(
    name="node1",
    ips=("10.0.0.201", "fd00:10::201"),
    pod_cidrs=("10.244.1.0/24", "fd00:10:244:1::/64"),
    root=Path("/"),
    labels={"zone": "a"},
    max_pods=7,
)


def test_the_node_is_registered_with_pod_ranges_and_labels():
    node = node_object(SETTINGS)
    assert node["spec"] == {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24", "fd00:10:244:1::/64"]}
    labels = node["metadata"]["labels"]
    assert labels["kubernetes.io/hostname"] == "node1"
    assert labels["kubernetes.io/os"] == "linux"
    assert labels["zone"] == "a"


def test_the_node_status_has_addresses_capacity_and_conditions():
    status = node_status(SETTINGS, {"cpu": "2"}, {"osImage": "x"}, {"Ready": "2026-01-01T00:00:00Z"}, 1795233600.0)
    assert status["addresses"] == [
        {"type": "InternalIP", "address": "10.0.0.201"},
        {"type": "InternalIP", "address": "fd00:10::201"},
        {"type": "Hostname", "address": "node1"},
    ]
    assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}
    assert status["features"] == {"supplementalGroupsPolicy": True}
    assert status["runtimeHandlers"][0]["features"] == {"recursiveReadOnlyMounts": True, "userNamespaces": False}
    with_users = node_status(SETTINGS, {}, {}, {}, 1795233600.0, has_user_namespaces=True)
    assert with_users["runtimeHandlers"][0]["features"]["userNamespaces"] is True
    conditions = {c["type"]: c for c in status["conditions"]}
    assert conditions["Ready"] == {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": "2026-11-21T04:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    assert {name for name, c in conditions.items() if c["status"] == "False"} == {
        "MemoryPressure",
        "DiskPressure",
        "PIDPressure",
    }


def test_extended_resources_can_be_allocated_while_they_are_advertised() -> None:
    """The owner of a resource patches the node's capacity only."""
    capacity = {"cpu": "2", "pods": "110"}
    observed = NodeStatus(
        capacity={"cpu": "3", "example.com/dongle": "4"}, allocatable={"cpu": "2", "example.com/gone": "1"}
    )
    expected = {**capacity, "example.com/dongle": "4", "example.com/gone": None}
    assert allocatable_resources(capacity, observed) == expected
    assert not is_reported(observed, observed)


def test_only_the_kubelets_own_status_fields_are_compared():
    ready = Condition(type="Ready", status="True", reason="KubeletReady", last_heartbeat_time="1")
    written = NodeStatus(conditions=(ready,), capacity={"cpu": "2"})
    observed = msgspec.structs.replace(ready, last_heartbeat_time="2")
    others = Condition(type="NetworkUnavailable", status="True")
    assert is_reported(msgspec.structs.replace(written, conditions=(others, observed)), written)
    unknown = msgspec.structs.replace(ready, status="Unknown")
    assert not is_reported(msgspec.structs.replace(written, conditions=(unknown,)), written)
    assert not is_reported(msgspec.structs.replace(written, conditions=()), written)
    assert not is_reported(msgspec.structs.replace(written, capacity={"cpu": "3"}), written)


def test_images_are_listed_with_all_of_their_names_the_largest_first() -> None:
    def record(name: str, config: str, size: int, digest: str = "") -> ImageRecord:
        return ImageRecord(name=name, digest=digest, manifest="m", config=config, size=size)

    many = [record(f"docker.io/many/{number}:1", f"sha256:{number}", 1) for number in range(60)]
    images = node_images([
        record("docker.io/library/a:1", "x", 5, "sha256:1"), record("docker.io/library/a:2", "x", 5, "sha256:1"),
        record("localhost:5000/b:1", "y", 9), *many,
    ])  # fmt: skip
    assert images[:2] == [
        {"names": ["y", "localhost:5000/b:1"], "sizeBytes": 9},
        {"names": ["docker.io/library/a@sha256:1", "docker.io/library/a:1", "docker.io/library/a:2"], "sizeBytes": 5},
    ]
    assert len(images) == 50

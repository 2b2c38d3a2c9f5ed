"""The Node that a kubelet registers, and its status."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bridgehead.kubelet.node.node_status import is_reported, node_object, node_status
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

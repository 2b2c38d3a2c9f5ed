"""Pages about the node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from bridgehead.kubelet.node.settings import NodeSettings
from bridgehead.kubelet.server import node_pages
from bridgehead.objects.core import Pod

SETTINGS = NodeSettings(name="node1", ips=("10.0.0.201",), pod_cidrs=("10.244.1.0/24",), root=Path("/r"))
STARTED = "2026-11-23T05:00:00Z"


def pod(name, phase, state, **status):
    statuses = [{"name": "app", "image": "app:1", "imageID": "", "ready": True, "restartCount": 0, "state": state}]
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {"containers": [{"name": "app", "image": "app:1"}]},
            "status": {"phase": phase, "containerStatuses": statuses, **status},
        },
        Pod,
    )


PODS = [
    pod("web", "Running", {"running": {"startedAt": STARTED}}, startTime=STARTED),
    pod("job", "Succeeded", {"terminated": {"exitCode": 0}}, startTime=STARTED),
    pod("new", "Pending", {"waiting": {"reason": "ContainerCreating"}}),
]


def test_the_summary_names_started_pods():
    page = msgspec.json.decode(msgspec.json.encode(node_pages.summary(SETTINGS, PODS)))
    assert page["node"] == {"nodeName": "node1"}
    assert [entry["podRef"]["name"] for entry in page["pods"]] == ["web", "job"]
    assert page["pods"][0]["containers"] == [{"name": "app", "startTime": STARTED}]


def test_the_configuration_is_shown():
    shown = node_pages.configuration(SETTINGS)["kubeletconfig"]
    assert (shown["kind"], shown["clusterDNS"], shown["podPidsLimit"]) == (
        "KubeletConfiguration",
        ["10.96.0.10"],
        4096,
    )
    unbounded = node_pages.configuration(replace(SETTINGS, pod_max_pids=None))["kubeletconfig"]
    assert unbounded["podPidsLimit"] == -1

"""The life of pods: a kubelet with the fake runtime against a real API server."""

from __future__ import annotations

import signal

import pytest

from bridgehead.kubelet.runtimes.fake import Behaviour
from bridgehead.objects.kinds import NODES, PODS

from .kubelet_world import open_world

pytestmark = pytest.mark.integration

IMAGES = {
    "app:1": Behaviour(),
    "stubborn:1": Behaviour(ignores_term=True),
    "job:1": Behaviour(exits_with=0),
    "crash:1": Behaviour(exits_with=3),
}


@pytest.fixture
async def world(tmp_path):
    async with open_world(tmp_path, IMAGES) as world:
        yield world


def is_running(pod):
    return pod.status.phase == "Running" and pod.is_ready


async def test_a_pod_becomes_ready_and_goes(world):
    await world.start_kubelet()
    await world.create("web")
    pod = await world.until("web", is_running)
    assert pod.status.pod_ip == "10.244.1.2"
    assert pod.status.host_ip == "127.0.0.1"
    assert pod.status.container_statuses[0].container_id.startswith("bridgehead://")
    await world.until_event("web", "Started", "Started container app")
    await world.admin.delete(PODS, "web", "default")
    await world.until_gone("web")
    assert world.runtime.signals == [("app", signal.SIGTERM)]
    assert world.runtime.sandboxes == {}


async def test_the_node_is_registered_and_ready(world):
    await world.start_kubelet()
    await world.until_event("node1", "NodeReady")
    node = await world.admin.get(NODES, "node1")
    assert node.is_ready
    assert node.spec.pod_cidr == "10.244.1.0/24"
    assert node.internal_ips == ("127.0.0.1",)
    assert node.metadata.labels["kubernetes.io/hostname"] == "node1"

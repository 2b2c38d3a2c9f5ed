"""Static pods: files of a node whose pods run with or without the API server, and their mirror pods in it."""

from __future__ import annotations

import asyncio
import json

import pytest

from bridgehead.objects.kinds import PODS
from tests.integration.fake_runtime import Behaviour

from .kubelet_world import DEADLINE, is_running, open_world

pytestmark = pytest.mark.integration

MIRROR = "kubernetes.io/config.mirror"
SOMEWHERE = {"containers": [{"name": "c", "image": "app:1"}]}


@pytest.fixture
async def world(tmp_path, manifests):
    async with open_world(tmp_path, {"app:1": Behaviour(), "app:2": Behaviour()}) as opened:
        yield opened


@pytest.fixture
def manifests(tmp_path):
    directory = tmp_path / "manifests"
    directory.mkdir()
    return directory


def write(directory, name="web", image="app:1", **spec):
    """Write the manifest in one step, as a careful editor does."""
    container = {"name": "app", "image": image}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}}
    manifest["spec"] = {"terminationGracePeriodSeconds": 1, "containers": [container], **spec}
    (directory / ".new").write_text(json.dumps(manifest))
    (directory / ".new").rename(directory / f"{name}.json")


async def until(world, name, condition):
    """Wait for a mirror pod, which may not exist yet or be deleted in between."""
    async with asyncio.timeout(DEADLINE):
        while True:
            world.check()
            for pod in (await world.admin.list(PODS, "default")).items:
                if pod.metadata.name == name and condition(pod):
                    return pod
            await asyncio.sleep(0.02)


def image_of(pod):
    return pod.spec.containers[0].image


async def test_a_static_pod_follows_its_manifest(world, manifests):
    await world.start_kubelet(static_pods=manifests)
    write(manifests)
    made = await until(world, "web-node1", is_running)
    assert (made.metadata.labels, made.spec.node_name) == ({"app": "web"}, "node1")
    assert made.metadata.controller.kind == "Node"
    assert made.status.pod_ip
    write(manifests, image="app:2")
    changed = await until(world, "web-node1", lambda pod: image_of(pod) == "app:2" and is_running(pod))
    assert changed.metadata.annotations[MIRROR] != made.metadata.annotations[MIRROR]
    assert list(world.runtime.sandboxes) == [changed.metadata.annotations[MIRROR]]
    (manifests / "broken.yaml").write_text("kind: [")
    (manifests / "web.json").unlink()
    await world.until_gone("web-node1")
    assert world.runtime.sandboxes == {}


async def test_a_deleted_mirror_pod_is_created_again_and_its_pod_runs_on(world, manifests):
    write(manifests)
    await world.start_kubelet(static_pods=manifests)
    before = await until(world, "web-node1", is_running)
    [ran] = await world.runtime.list_containers()
    await world.admin.delete(PODS, "web-node1", "default", grace_period_seconds=30)

    def is_new(pod):
        return pod.metadata.uid != before.metadata.uid and is_running(pod)

    again = await until(world, "web-node1", is_new)
    assert again.status.pod_ip == before.status.pod_ip
    assert [one.id for one in await world.runtime.list_containers()] == [ran.id]


async def test_the_log_names_a_pod_that_has_the_name_of_a_mirror_pod(world, manifests, caplog):
    await world.admin.create(PODS, {"metadata": {"name": "web-node1", "namespace": "default"}, "spec": SOMEWHERE})
    write(manifests)
    await world.start_kubelet(static_pods=manifests)
    await world.wait_for(lambda: "Failed creating a mirror pod" in caplog.text)
    assert 'default/web-node1, which runs without one: pods "web-node1" already exists' in caplog.text
    await world.wait_for(lambda: len(world.runtime.containers) == 1)
    await world.admin.delete(PODS, "web-node1", "default", grace_period_seconds=0)
    assert (await until(world, "web-node1", is_running)).metadata.annotations[MIRROR]
    assert caplog.text.count("Failed creating a mirror pod") == 1


async def test_a_restarted_kubelet_resumes_its_static_pods(world, manifests):
    write(manifests)
    write(manifests, "gone")
    await world.start_kubelet(static_pods=manifests)
    before = await until(world, "web-node1", is_running)
    await until(world, "gone-node1", is_running)
    containers = {one.pod_uid: one.id for one in await world.runtime.list_containers()}
    await world.stop_kubelet()
    (manifests / "gone.json").unlink()
    await world.start_kubelet(static_pods=manifests)
    await world.until_gone("gone-node1")
    await world.wait_for(lambda: len(world.runtime.sandboxes) == 1)
    uid = before.metadata.annotations[MIRROR]
    assert {one.pod_uid: one.id for one in await world.runtime.list_containers()}[uid] == containers[uid]
    after = await until(world, "web-node1", is_running)
    assert after.metadata.uid == before.metadata.uid


async def test_static_pods_are_admitted_beside_the_pods_of_the_api_and_each_other(world, manifests):
    def on_port(port):
        return [{"name": "app", "image": "app:1", "ports": [{"containerPort": 80, "hostPort": port}]}]

    def is_rejected(pod):
        return pod.status.phase == "Failed" and pod.status.reason == "NodePorts"

    await world.start_kubelet(static_pods=manifests)
    await world.create("runs", containers=on_port(8080))
    await world.until("runs", is_running)
    write(manifests, "first", containers=on_port(8081))
    await until(world, "first-node1", is_running)
    write(manifests, "second", containers=on_port(8081))
    await until(world, "second-node1", is_rejected)
    await world.stop_kubelet()
    write(manifests, "third", containers=on_port(8080))
    await world.start_kubelet(static_pods=manifests)
    await until(world, "third-node1", is_rejected)
    assert is_running(await world.pod("runs"))

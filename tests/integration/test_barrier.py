"""The barrier's ends against a real API server: who may write and read what, and what the kubelet does meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import time

import pytest

from bridgehead.client import ApiClient, ClientConfig
from bridgehead.client.errors import Forbidden, NotFound
from bridgehead.insight.waiting import NotProgrammed, wait_programmed
from bridgehead.kubelet.runtimes.runtime import ExecResult
from bridgehead.objects.kinds import ENDPOINT_SLICES, LEASES, NODES, PODS, SERVICES
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.progress import NAMESPACE, SELECTOR, Versions, lease_changes, new_lease, read_progress
from bridgehead.proxy.operating.progress import KnownNodes, ProgressPublisher
from tests.integration.fake_runtime import Behaviour

from .kubelet_world import open_world

pytestmark = pytest.mark.integration

LONG = 250.0  # longer than any test may take: what is awaited has to come by itself
WEB = ObjectKey("default", "web")


@pytest.fixture
async def world(tmp_path):
    async with open_world(tmp_path, {"app:1": Behaviour()}) as world:
        yield world


class Cluster:
    """A Service `web`, its slice and the proxies' Leases, as their owners would write them."""

    def __init__(self, world):
        self.world = world
        self.api = world.admin

    async def create_service(self):
        spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
        await self.api.create(SERVICES, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})

    async def create_pod(self, **spec):
        pod = {
            "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
            "spec": {
                "nodeName": "node1",
                "terminationGracePeriodSeconds": 300,
                "containers": [{"name": "app", "image": "app:1", **spec}],
            },
        }
        await self.api.create(PODS, pod)
        return await self.world.until("web", lambda pod: pod.is_ready)

    async def create_slice(self, pod, *, ready=True):
        slice_ = {
            "metadata": {
                "name": "web-1",
                "namespace": "default",
                "labels": {
                    "kubernetes.io/service-name": "web",
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                },
            },
            "addressType": "IPv4",
            "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
            "endpoints": [endpoint_of(pod, ready=ready)],
        }
        return await self.api.create(ENDPOINT_SLICES, slice_)

    async def withdraw(self, pod):
        endpoints = [endpoint_of(pod, ready=False)]
        return await self.api.patch(ENDPOINT_SLICES, "web-1", "default", {"endpoints": endpoints})

    async def publish(self, node, *objects):
        """The node's proxy has programmed `objects`."""
        version = max((int(obj.metadata.resource_version) for obj in objects), default=0)
        programmed = Versions(version, version)
        try:
            changes = lease_changes(node, programmed, time.time())
            await self.api.patch(LEASES, f"kube-proxy-{node}", NAMESPACE, changes)
        except NotFound:
            await self.api.create(LEASES, new_lease(node, programmed, time.time(), None))


def endpoint_of(pod, *, ready):
    return {
        "addresses": [pod.status.pod_ip],
        "targetRef": {"kind": "Pod", "name": "web", "namespace": "default", "uid": pod.metadata.uid},
        "conditions": {"ready": ready, "serving": True, "terminating": not ready},
    }


@pytest.fixture
async def cluster(world):
    cluster = Cluster(world)
    await cluster.create_service()
    return cluster


@contextlib.asynccontextmanager
async def client_of(world, token):
    async with ApiClient(ClientConfig(server=world.admin.config.server, token=token)) as client:
        yield client


# --- What proxies write ----------------------------------------------------------------------------------


async def test_a_proxy_publishes_its_progress_and_recreates_its_lease(world):
    node = await world.admin.create(NODES, {"metadata": {"name": "node7"}})

    async def published(version):
        async with asyncio.timeout(40):
            while True:
                with contextlib.suppress(NotFound):
                    lease = await world.admin.get(LEASES, "kube-proxy-node7", NAMESPACE)
                    progress = read_progress(lease)
                    if progress is not None and progress.programmed == version:
                        return lease
                await asyncio.sleep(0.01)

    async with client_of(world, "proxy") as client:
        publisher = ProgressPublisher(client, "node7")
        run = asyncio.create_task(publisher.run())
        try:
            publisher.on_programmed("5", "7", KnownNodes(1, node.metadata.uid))
            lease = await published((5, 7))
            assert lease.metadata.owner_references[0].uid == node.metadata.uid
            await world.admin.delete(LEASES, "kube-proxy-node7", NAMESPACE)
            publisher.on_programmed("5", "8", KnownNodes(1, node.metadata.uid))
            await published((5, 8))
        finally:
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)


async def test_a_node_may_read_the_objects_of_the_barrier_and_write_none_of_them(world):
    api = world.node_client
    await api.list(ENDPOINT_SLICES)
    await api.list(LEASES, NAMESPACE, SELECTOR)
    for namespace, selector in ((NAMESPACE, ""), ("", SELECTOR)):
        with pytest.raises(Forbidden):
            await api.list(LEASES, namespace, selector)
    with pytest.raises(Forbidden):
        await api.create(LEASES, new_lease("node1", Versions(), 0.0, None))


# --- What the kubelet does -------------------------------------------------------------------------------


async def test_pre_stop_runs_at_once_and_the_signal_waits_for_every_proxy(world, cluster):
    drained = asyncio.Event()

    def drain(spec, argv):
        drained.set()
        return ExecResult(exit_code=0, output=b"")

    world.runtime.images["app:1"] = Behaviour(exec=drain)
    await world.start_kubelet(termination_barrier=LONG)
    pod = await cluster.create_pod(lifecycle={"preStop": {"exec": {"command": ["drain"]}}})
    offered = await cluster.create_slice(pod)
    await cluster.publish("node1", offered)
    await cluster.publish("node2", offered)
    await world.admin.delete(PODS, "web", "default")
    async with asyncio.timeout(40):
        await drained.wait()
    withdrawn = await cluster.withdraw(pod)
    await cluster.publish("node1", withdrawn)
    assert world.runtime.signals == []
    await cluster.publish("node2", withdrawn)
    await world.until_gone("web")
    assert world.runtime.signals == [("app", signal.SIGTERM)]


async def test_a_container_that_exits_by_itself_ends_the_wait(world, cluster):
    await world.start_kubelet(termination_barrier=LONG)
    pod = await cluster.create_pod()
    await cluster.publish("node1", await cluster.create_slice(pod))
    await world.admin.delete(PODS, "web", "default")
    await world.until_event("web", "Killing")
    [info] = world.runtime.containers.values()
    world.runtime.finish(info.id, 0)
    await world.until_gone("web")
    assert world.runtime.signals == []


async def test_a_restarted_kubelet_continues_to_wait(world, cluster):
    await world.start_kubelet(termination_barrier=LONG)
    pod = await cluster.create_pod()
    await cluster.publish("node1", await cluster.create_slice(pod))
    await world.admin.delete(PODS, "web", "default")
    await world.until_event("web", "Killing")
    await world.stop_kubelet()
    withdrawn = await cluster.withdraw(pod)
    await world.start_kubelet(termination_barrier=LONG)
    await world.until_event("web", "Killing")
    assert world.runtime.signals == []
    await cluster.publish("node1", withdrawn)
    await world.until_gone("web")
    assert world.runtime.signals == [("app", signal.SIGTERM)]


@pytest.mark.parametrize("grace", [0, 1])
async def test_a_short_grace_period_shortens_the_wait(world, cluster, grace):
    await world.start_kubelet(termination_barrier=LONG)
    pod = await cluster.create_pod()
    await cluster.publish("node1", await cluster.create_slice(pod))
    await world.admin.delete(PODS, "web", "default")
    await world.until_event("web", "Killing")
    await world.admin.delete(PODS, "web", "default", grace_period_seconds=grace)
    await world.until_gone("web")


async def test_a_pod_without_a_service_is_not_held(world):
    await world.start_kubelet(termination_barrier=LONG)
    await world.create("lone")
    await world.until("lone", lambda pod: pod.is_ready)
    await world.admin.delete(PODS, "lone", "default")
    await world.until_gone("lone")


# --- bridgehead wait -------------------------------------------------------------------------------------


async def test_bridgehead_wait_follows_a_service_to_every_node(world, cluster):
    await world.start_kubelet()
    pod = await cluster.create_pod()
    await world.until_event("node1", "NodeReady")
    messages = asyncio.Queue()
    async with client_of(world, "admin") as client:
        wait = asyncio.create_task(wait_programmed(client, WEB, LONG, messages.put_nowait))

        async def until_reported(pattern):
            async with asyncio.timeout(40):
                while not re.search(pattern, text := await messages.get()):
                    assert not wait.done(), text

        await until_reported("slices are not up to date yet")
        slice_ = await cluster.create_slice(pod)
        await until_reported(r"^node1 \(its proxy publishes nothing\)$")
        await cluster.publish("node1")
        await until_reported(r"^node1 \(Services at 0 of \d+, EndpointSlices at 0 of \d+\)$")
        await cluster.publish("node1", slice_)
        assert await wait == "service/web is programmed on 1 node, with 1 ready endpoint"


async def test_bridgehead_wait_that_checks_once_names_the_nodes_that_lack_the_service(world, cluster):
    await world.start_kubelet()
    pod = await cluster.create_pod()
    await world.until_event("node1", "NodeReady")
    await cluster.create_slice(pod)
    await cluster.publish("node1")
    async with client_of(world, "admin") as client:
        with pytest.raises(NotProgrammed, match=r"web is not programmed: node1 \(Services at 0 of \d+"):
            await wait_programmed(client, WEB, 0, lambda missing: None)
        with pytest.raises(NotFound):
            await wait_programmed(client, ObjectKey("default", "other"), 0, lambda missing: None)


async def test_bridgehead_wait_ends_when_the_service_is_deleted(world, cluster):
    async with client_of(world, "admin") as client:
        waiting = asyncio.Event()
        wait = asyncio.create_task(wait_programmed(client, WEB, LONG, lambda missing: waiting.set()))
        async with asyncio.timeout(40):
            await waiting.wait()
        await world.admin.delete(SERVICES, "web", "default")
        with pytest.raises(NotProgrammed, match="was deleted meanwhile"):
            await wait

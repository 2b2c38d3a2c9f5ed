"""A kubelet with the fake runtime against a real API server in the same process, on loopback."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bridgehead.apiserver.bootstrap import ensure_system_objects
from bridgehead.apiserver.build import ApiSettings, build_api
from bridgehead.apiserver.http.server import ApiServer, open_listeners
from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.kubernetes_service import KubernetesService
from bridgehead.apiserver.resources import build_table
from bridgehead.apiserver.server_leases import OnlyServer
from bridgehead.client import ApiClient, ClientConfig
from bridgehead.client.access_reviews import AccessReviews
from bridgehead.client.errors import NotFound
from bridgehead.kubelet.kubelet import Kubelet
from bridgehead.kubelet.node.settings import NodeSettings
from bridgehead.kubelet.server.authorization import NodeReviews
from bridgehead.kubelet.server.kubelet_server import KubeletServer
from bridgehead.objects.core import Event, Pod
from bridgehead.objects.kinds import CONFIG_MAPS, EVENTS, PODS, SERVICE_ACCOUNTS
from bridgehead.storage import open_store
from tests.integration.fake_runtime import Behaviour, FakeRuntime

from .api_world import SIGNING_KEY, free_ports

DEADLINE = 100.0


@dataclass
class World:
    """`admin` may do everything; `kubelet` talks as its node."""

    root: Path
    runtime: FakeRuntime
    admin: ApiClient
    node_client: ApiClient
    _running: list[asyncio.Task[None]] = field(default_factory=list)

    def settings(self, **changes: Any) -> NodeSettings:
        values = {"name": "node1", "ips": ("127.0.0.1",), "pod_cidrs": ("10.244.1.0/24",), "root": self.root}
        return NodeSettings(**{**values, "termination_barrier": 0.0, **changes})

    async def start_kubelet(self, **changes: Any) -> Kubelet:
        kubelet = Kubelet(self.settings(**changes), self.node_client, self.runtime)
        self._running.append(asyncio.create_task(kubelet.run()))
        return kubelet

    async def stop_kubelet(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._running.clear()

    async def serve_kubelet(self, *, checks_access: bool = False, idle_seconds: float = 0.0, **changes: Any) -> Kubelet:
        """A kubelet whose server answers on the port that its Node names, everybody or those who may."""
        (port,) = free_ports(1)
        reviews = NodeReviews(AccessReviews(self.node_client), "node1") if checks_access else None
        kubelet = await self.start_kubelet(port=port, **changes)
        self._running.append(
            asyncio.create_task(KubeletServer(kubelet, reviews, idle_seconds=idle_seconds).run("127.0.0.1", port, None))
        )
        await self.until_event("node1", "NodeReady")
        return kubelet

    def check(self) -> None:
        """A kubelet that died is the reason why nothing happens."""
        for task in self._running:
            if task.done():
                task.result()

    async def create(self, name: str, **spec: Any) -> Pod:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": "node1", "containers": [{"name": "app", "image": "app:1"}], **spec},
        }
        return await self.admin.create(PODS, body)

    async def pod(self, name: str) -> Pod:
        return await self.admin.get(PODS, name, "default")

    async def until(self, name: str, condition: Callable[[Pod], bool]) -> Pod:
        """Wait for the pod to be as `condition` wants it."""
        pod = None
        try:
            async with asyncio.timeout(DEADLINE):
                while True:
                    self.check()
                    pod = await self.pod(name)
                    if condition(pod):
                        return pod
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"still {pod.status if pod else None}") from None

    async def until_gone(self, name: str) -> None:
        async with asyncio.timeout(DEADLINE):
            while True:
                self.check()
                try:
                    await self.pod(name)
                except NotFound:
                    return
                await asyncio.sleep(0.02)

    async def events(self, name: str) -> list[Event]:
        found = await self.admin.list(EVENTS, "default", field_selector=f"involvedObject.name={name}")
        return found.items

    async def until_event(self, name: str, reason: str, text: str = "", *, container: str = "") -> Event:
        async with asyncio.timeout(DEADLINE):
            while True:
                self.check()
                for event in await self.events(name):
                    is_of_container = event.involved_object.field_path.endswith(f"{{{container}}}")
                    if event.reason == reason and text in event.message and (is_of_container or not container):
                        return event
                await asyncio.sleep(0.02)

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not condition():
                self.check()
                await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def open_world(
    root: Path, images: dict[str, Behaviour] | None = None, runtime: type[FakeRuntime] = FakeRuntime
) -> AsyncIterator[World]:
    store = open_store("memory")
    users = {
        "admin": User("kubernetes-admin", groups=("system:masters", "system:authenticated")),
        "node": User("system:node:node1", groups=("system:nodes", "system:authenticated")),
        "proxy": User("system:serviceaccount:kube-system:kube-proxy", groups=("system:authenticated",)),
    }
    table = build_table(service_cidrs=("10.96.0.0/12",), node_port_range=(30000, 32767))
    parts = build_api(table, store, ApiSettings(SIGNING_KEY, users=users))
    listeners = open_listeners(["127.0.0.1:0"], [])
    port = listeners[0].getsockname()[1]
    await ensure_system_objects(
        parts.registry, KubernetesService(parts.registry, "10.96.0.1", ("10.0.0.1", 6443), OnlyServer())
    )
    server = ApiServer(parts.application, None, parts.watches.close)
    serving = asyncio.create_task(server.serve(listeners))
    url = f"http://127.0.0.1:{port}"
    try:
        async with (
            ApiClient(ClientConfig(server=url, token="admin")) as admin,
            ApiClient(ClientConfig(server=url, token="node")) as node_client,
        ):
            # The controllers make these in every namespace, and pods can't do without them.
            await admin.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": "default"}})
            ca = {"metadata": {"name": "kube-root-ca.crt", "namespace": "default"}, "data": {"ca.crt": "pem"}}
            await admin.create(CONFIG_MAPS, ca)
            world = World(root, runtime(images), admin, node_client)
            try:
                yield world
            finally:
                await world.stop_kubelet()
    finally:
        server.stop()
        await serving
        await parts.close()
        await store.close()
        for listener in listeners:
            listener.close()


def is_running(pod):
    return pod.status.phase == "Running" and pod.is_ready


def waits_for(reason):
    def check(pod):
        waiting = pod.status.container_statuses and pod.status.container_statuses[0].state.waiting
        return waiting and waiting.reason == reason

    return check


def container(image="app:1", **more):
    return {"name": "app", "image": image, **more}

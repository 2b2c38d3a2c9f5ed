"""A cluster that is not this project's, as far as the insight commands can see: its API has no object of Bridgehead.

The API server is a process of this project. node1's kube-proxy is a pod into which exec works: its programs run in the
network namespace of the test, which plays the node's. The other nodes cannot be entered, each for its own reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, web

from bridgehead.client import ApiClient, load_kubeconfig
from bridgehead.objects.kinds import NODES, PODS, Kind
from tests import forks
from tests.kubeconfigs import write_kubeconfig

from .apiserver_process import ServerProcess, write_files
from .kubelet_world import World
from .stream_clients import ProcessRuntime

DEADLINE = 100.0
NAMESPACE = "shop"
KUBE_PROXY_CONFIG = """
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clusterCIDR: 10.244.0.0/16
mode: "MODE"
"""
Json = dict[str, Any]

# Rights of users, as rules of a ClusterRole or, with a namespace, of a Role.
_READ = ["get", "list", "watch"]
_CORE = ["services", "endpoints", "events", "configmaps", "namespaces"]
_OTHERS = [
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": _READ},
    {"apiGroups": ["networking.k8s.io", "apps", "coordination.k8s.io"], "resources": ["*"], "verbs": _READ},
]


def _core(*resources: str) -> Json:
    return {"apiGroups": [""], "resources": list(resources), "verbs": _READ}


USERS: Mapping[str, tuple[str, list[Json]]] = {
    "no-nodes": ("", [_core(*_CORE, "pods"), *_OTHERS]),
    "no-pods": ("", [_core(*_CORE, "nodes"), *_OTHERS]),
    "no-exec": ("", [_core(*_CORE, "pods", "nodes"), *_OTHERS]),
    "no-slices": ("", [_core(*_CORE, "pods", "nodes"), *_OTHERS[1:]]),
    "one-namespace": (NAMESPACE, [_core(*_CORE, "pods"), *_OTHERS]),
    "nothing": ("", []),
}


@dataclass
class ForeignCluster:
    """`admin` has all rights. Kubeconfigs of the users in `USERS`, and of `admin`, are in `directory`."""

    directory: Path
    server: ServerProcess
    admin: ApiClient
    world: World

    def kubeconfig(self, user: str = "admin") -> Path:
        return self.directory / f"{user}.kubeconfig"

    async def run(self, *arguments: str, user: str = "admin") -> Result:
        """Run a command to its end. Fails when it prints a traceback."""
        return await run(*arguments, kubeconfig=self.kubeconfig(user))

    async def uids(self, namespace: str) -> dict[str, str]:
        """Return the uids of a namespace's pods."""
        return {each.metadata.name: each.metadata.uid for each in (await self.admin.list(PODS, namespace)).items}

    async def apply(self, path: str, *documents: Json) -> None:
        """Create objects, and give them the status that they have."""
        for document in documents:
            await self.admin.request("POST", path, json=document)
            if "status" in document:
                name = document["metadata"]["name"]
                changes = {"status": document["status"]}
                kind: Kind[Any] = {"nodes": NODES, "pods": PODS}[path.rpartition("/")[2]]  # type: ignore[assignment]
                await self.admin.patch(kind, name, namespace_of(path), changes, subresource="status")


@dataclass(frozen=True)
class Result:
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Json:
        found: Json = json.loads(self.stdout)
        return found


async def run(*arguments: str, kubeconfig: Path) -> Result:
    line = (arguments[0], "--kubeconfig", str(kubeconfig), *arguments[1:])
    done = await asyncio.to_thread(forks.run_bridgehead, *line, timeout=DEADLINE)
    assert "Traceback" not in done.stderr, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    return Result(done.returncode, done.stdout, done.stderr)


def namespace_of(path: str) -> str:
    _, found, rest = path.partition("/namespaces/")
    return rest.partition("/")[0] if found else ""


@contextlib.asynccontextmanager
async def foreign_cluster(*, mode: str = "") -> AsyncIterator[ForeignCluster]:
    """Run the cluster during the block. `mode`: in the ConfigMap of kube-proxy."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_files(directory)
        with (directory / "tokens.csv").open("a") as tokens:
            tokens.writelines(f"{user}-token,{user},{user}\n" for user in USERS)
        server = ServerProcess(directory)
        with contextlib.closing(server):
            await asyncio.to_thread(server.start)
            for user in (*USERS, "admin"):
                write_kubeconfig(directory / f"{user}.kubeconfig", server.url, token=f"{user}-token")
            certificate = {"client-certificate": f"{directory}/node1.crt", "client-key": f"{directory}/node1.key"}
            node1 = load_kubeconfig(write_kubeconfig(directory / "node1.kubeconfig", server.url, **certificate))
            admin = load_kubeconfig(directory / "admin.kubeconfig")
            async with ApiClient(admin) as client, ApiClient(node1) as node_client:
                runtime = ProcessRuntime()
                world = World(directory, runtime, client, node_client)
                cluster = ForeignCluster(directory, server, client, world)
                await _create_users(client)
                await world.serve_kubelet()
                try:
                    await _create_system(cluster, mode)
                    yield cluster
                finally:
                    await world.stop_kubelet()
                    for process in runtime.processes:
                        process.kill()
                        await process.wait()


async def _create_users(client: ApiClient) -> None:
    group = "rbac.authorization.k8s.io"
    for name in (NAMESPACE, "monitoring"):
        await client.request("POST", "/api/v1/namespaces", json={"metadata": {"name": name}})
    for user, (namespace, rules) in USERS.items():
        kind = "Role" if namespace else "ClusterRole"
        root = f"/apis/{group}/v1/{f'namespaces/{namespace}/' if namespace else ''}{kind.lower()}"
        metadata = {"name": user}
        await client.request("POST", f"{root}s", json={"metadata": metadata, "rules": rules})
        binding = {"roleRef": {"apiGroup": group, "kind": kind, "name": user}}
        binding["subjects"] = [{"apiGroup": group, "kind": "User", "name": user}]  # type: ignore[assignment]
        await client.request("POST", f"{root}bindings", json={"metadata": metadata, **binding})


async def _create_system(cluster: ForeignCluster, mode: str) -> None:
    """Create what kubeadm makes, and nodes that are there only as objects."""
    client, system = cluster.admin, "/api/v1/namespaces/kube-system"
    for namespace in ("kube-system", NAMESPACE, "monitoring"):
        path = f"/api/v1/namespaces/{namespace}"
        await client.request("POST", f"{path}/serviceaccounts", json={"metadata": {"name": "default"}})
    data = {"config.conf": KUBE_PROXY_CONFIG.replace("MODE", mode)}
    await client.request("POST", f"{system}/configmaps", json={"metadata": {"name": "kube-proxy"}, "data": data})
    await cluster.apply("/api/v1/nodes", *(node(number) for number in (2, 3, 4)))
    await cluster.apply(
        f"{system}/pods",
        pod("kube-proxy-1", {"k8s-app": "kube-proxy"}, node_name="node1", host_network=True, has_status=False),
        pod("kube-proxy-2", {"k8s-app": "kube-proxy"}, "10.0.0.202", "node2", host_network=True),
        pod("kube-proxy-3", {"k8s-app": "kube-proxy"}, "10.0.0.203", "node3", host_network=True, waits="ErrImagePull"),
        pod("coredns-1", {"k8s-app": "kube-dns"}, "10.244.2.53"),
    )
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53}]
    await cluster.apply(
        f"{system}/services", service("kube-dns", {"k8s-app": "kube-dns"}, clusterIP="10.96.0.10", ports=ports)
    )
    await client.request(
        "POST",
        "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices",
        json=slice_("kube-dns", {"coredns-1": "10.244.2.53"}, await cluster.uids("kube-system"), ports),
    )
    async with asyncio.timeout(DEADLINE):
        while not (await client.get(PODS, "kube-proxy-1", "kube-system")).is_ready:
            cluster.world.check()
            await asyncio.sleep(0.05)


def node(number: int) -> Json:
    """Return a ready node, whose kubelet nobody can reach."""
    address = f"10.0.0.20{number}"
    return {
        "metadata": {"name": f"node{number}", "labels": {"kubernetes.io/hostname": f"node{number}"}},
        "spec": {"podCIDR": f"10.244.{number}.0/24", "podCIDRs": [f"10.244.{number}.0/24"]},
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    }


def pod(
    name: str,
    labels: Mapping[str, str],
    address: str = "",
    node_name: str = "node2",
    *,
    host_network: bool = False,
    has_status: bool = True,
    is_ready: bool = True,
    waits: str = "",
    ports: list[Json] | None = None,
) -> Json:
    """Return a pod that runs, unless it `waits`, a reason. Without a status, the node's kubelet runs it."""
    container = {"name": "app", "image": "app:1", "ports": ports or []}
    document: Json = {
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {
            "nodeName": node_name,
            "hostNetwork": host_network,
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
        },
    }
    if not has_status:
        return document
    is_ready = is_ready and not waits
    running = {"startedAt": "2026-01-01T00:00:00Z"}
    state = {"waiting": {"reason": waits, "message": "no such image"}} if waits else {"running": running}
    statuses = [{"name": "app", "image": "app:1", "imageID": "", "ready": is_ready, "restartCount": 0, "state": state}]
    ready = "True" if is_ready else "False"
    document["status"] = {
        "phase": "Pending" if waits else "Running",
        **({"podIP": address, "podIPs": [{"ip": address}]} if address else {}),
        "hostIP": "10.0.0.202",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{"type": kind, "status": ready} for kind in ("Ready", "ContainersReady")],
        "containerStatuses": statuses,
    }
    return document


def service(name: str, selector: Mapping[str, str] | None, **spec: Any) -> Json:
    spec.setdefault("ports", [{"port": 80, "targetPort": 8080}])
    return {"metadata": {"name": name}, "spec": {"selector": dict(selector or {}), **spec}}


def slice_(
    name: str,
    endpoints: Mapping[str, str],
    uids: Mapping[str, str],
    ports: list[Json] | None = None,
    *,
    is_ready: bool = True,
) -> Json:
    """Return a slice as kube-controller-manager writes it. `endpoints`: addresses by pod; `uids`: of pods."""
    return {
        "metadata": {
            "name": f"{name}-abcde",
            "labels": {
                "kubernetes.io/service-name": name,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
        },
        "addressType": "IPv4",
        "ports": ports or [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": [
            {
                "addresses": [address],
                "conditions": {"ready": is_ready, "serving": is_ready, "terminating": False},
                "nodeName": "node2",
                "targetRef": {"kind": "Pod", "name": pod_name, "uid": uids.get(pod_name, "")},
            }
            for pod_name, address in endpoints.items()
        ],
    }


# --- An API that answers half --------------------------------------------------------------------------------

HTML = b"<html><body>\x1b[31mGateway \xff</body></html>"
SHAPES = b'{"kind": "List", "metadata": [], "items": [1, null, "x", {"metadata": 7}, {"metadata": {"name": []}}]}'


@contextlib.asynccontextmanager
async def half_api(cluster: ForeignCluster, answers: Mapping[str, str]) -> AsyncIterator[Path]:
    """Yield the kubeconfig of a server that passes requests on to the API server, as its admin.

    `answers`: by the plural of a kind, `500`, `hang`, `reset`, `html`, `shapes` or `cut` instead of the answer.
    """
    context = cluster.server.context("admin")
    ended = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        plural = request.path.rstrip("/").rpartition("/")[2]
        match answers.get(plural):
            case "500":
                return web.Response(status=500, text="etcdserver: \x1b[31mno leader")
            case "hang":
                await ended.wait()
                return web.Response(status=503)
            case "reset":
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            case "html":
                return web.Response(body=HTML, content_type="text/html")
            case "shapes":
                return web.Response(body=SHAPES, content_type="application/json")
        async with session.get(f"{cluster.server.url}{request.path_qs}", ssl=context) as response:
            body = await response.read()
            if answers.get(plural) == "cut":
                body = body[: len(body) // 2]
            return web.Response(status=response.status, body=body, content_type="application/json")

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    async with ClientSession() as session:
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port = runner.addresses[0][1]
            yield write_kubeconfig(cluster.directory / "half.kubeconfig", f"http://127.0.0.1:{port}")
        finally:
            ended.set()
            await runner.cleanup()

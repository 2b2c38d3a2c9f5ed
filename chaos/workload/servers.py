"""Services for clients, whose pods stay, all on one node or spread over all. `REPLACE_PODS` faults replace them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from chaos.connections import ClientKind
from chaos.lab import NODES, Lab

NAMESPACE = "chaos"
SPREAD = "spread"
CLUSTER_DNS = "10.96.0.10"
_IMAGE = "registry.k8s.io/e2e-test-images/agnhost:2.45"
_REPLICAS_ON_A_NODE, _REPLICAS_SPREAD = 2, 6
_NODE_ADDRESSES = {node: f"10.0.0.{201 + number}" for number, node in enumerate(NODES)}
# A process is known by its port.
SERVER_PORTS = {SPREAD: 8080, **{f"on-{node}": 8081 + number for number, node in enumerate(NODES)}}


@dataclass(frozen=True)
class Server:
    """A Service and the nodes that its pods are on."""

    name: str
    cluster_ip: str
    node_port: int
    nodes: tuple[str, ...]


async def create_servers(lab: Lab) -> list[Server]:
    """Create the namespace and the Services, and wait until all nodes have them."""
    await lab.kubectl("create", "namespace", NAMESPACE)
    manifests = []
    for name, port in SERVER_PORTS.items():
        node = name.removeprefix("on-") if name != SPREAD else ""
        manifests += [_deployment(name, port, node), _service(name, port)]
    await lab.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
    for name in SERVER_PORTS:
        await lab.kubectl("-n", NAMESPACE, "rollout", "status", f"deployment/{name}", "--timeout=120s")
        await lab.command("wait", "-n", NAMESPACE, f"service/{name}", "--timeout=120s")
    found = json.loads(await lab.kubectl("-n", NAMESPACE, "get", "services", "-o", "json"))["items"]
    return [_server(service) for service in found]


def targets_of(source: str, servers: list[Server], number: int) -> list[dict[str, Any]]:
    """The targets of a client at `source`: a node, or "lab". `number` varies the node ports and kept connections."""
    entry = "node1" if source == "lab" else source
    targets = [_target(ClientKind.CLUSTER_IP, server, entry, server.cluster_ip, 80) for server in servers]
    for shift in range(2):
        server = servers[(number + shift) % len(servers)]
        node = NODES[(number + 2 * shift) % len(NODES)]
        targets.append(_target(ClientKind.NODE_PORT, server, node, _NODE_ADDRESSES[node], server.node_port))
        kept = servers[(number + shift + 2) % len(servers)]
        targets.append(_target(ClientKind.ESTABLISHED, kept, entry, kept.cluster_ip, 80))
    named = servers[number % len(servers)]
    lookup = {"name": f"{named.name}.{NAMESPACE}.svc.cluster.local", "expected": named.cluster_ip}
    dns = Server("kube-dns", CLUSTER_DNS, 0, NODES)
    return [*targets, {**_target(ClientKind.DNS, dns, entry, CLUSTER_DNS, 53), **lookup}]


def _target(kind: ClientKind, server: Server, entry: str, address: str, port: int) -> dict[str, Any]:
    return {
        "kind": kind.value,
        "service": server.name,
        "entry": entry,
        "nodes": list(server.nodes),
        "address": address,
        "port": port,
    }


def _server(service: dict[str, Any]) -> Server:
    name, spec = service["metadata"]["name"], service["spec"]
    nodes = NODES if name == SPREAD else (name.removeprefix("on-"),)
    return Server(name, spec["clusterIP"], spec["ports"][0]["nodePort"], nodes)


def _deployment(name: str, port: int, node: str) -> dict[str, Any]:
    pod: dict[str, Any] = {"containers": [server_container(port)]}
    if node:
        pod["nodeSelector"] = {"kubernetes.io/hostname": node}
    return deployment(name, _REPLICAS_ON_A_NODE if node else _REPLICAS_SPREAD, pod)


def server_container(port: int) -> dict[str, Any]:
    """A web server whose /hostname is its pod's name."""
    probe = {"httpGet": {"path": "/hostname", "port": port}, "periodSeconds": 2, "timeoutSeconds": 5}
    return {
        "name": "server",
        "image": _IMAGE,
        "args": ["netexec", f"--http-port={port}", "--udp-port=-1"],
        "readinessProbe": probe,
    }


def deployment(name: str, replicas: int, pod: dict[str, Any]) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def _service(name: str, port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"type": "NodePort", "selector": {"app": name}, "ports": [{"port": 80, "targetPort": port}]},
    }

"""A small cluster for the tests of traces: two nodes, Services and pods of namespace default."""

from __future__ import annotations

from typing import Any

import msgspec

from bridgehead.insight.facts.cluster_state import ClusterState, by_key
from bridgehead.objects.core import Namespace, Node, Pod, Service
from bridgehead.objects.endpoint_slices import EndpointSlice


def service(name: str = "web", namespace: str = "default", status: Any = None, **spec: Any) -> Service:
    spec = {"clusterIP": "10.96.0.10", "ports": [{"name": "http", "port": 80, "targetPort": 8080}], **spec}
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": namespace}, "spec": spec, "status": status or {}}, Service
    )


def endpoint_slice(*addresses: str, name: str = "web", port: int = 8080, **more: Any) -> EndpointSlice:
    return msgspec.convert(
        {
            "metadata": {
                "name": f"{name}-1",
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": name},
            },
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
            "endpoints": [
                {"addresses": [one], "conditions": {"ready": True}, "nodeName": "node1", **more} for one in addresses
            ],
        },
        EndpointSlice,
    )


def pod(name: str, address: str = "10.244.1.5", namespace: str = "default", phase: str = "Running", **spec: Any) -> Pod:
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": namespace, "uid": name},
            "spec": {"nodeName": "node1", "dnsPolicy": "ClusterFirst", **spec},
            "status": {
                "phase": phase,
                "podIP": address,
                "podIPs": [{"ip": address}],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        Pod,
    )


def node(name: str = "node1", address: str = "10.0.0.201") -> Node:
    return msgspec.convert(
        {
            "metadata": {"name": name},
            "status": {
                "addresses": [{"type": "InternalIP", "address": address}],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        Node,
    )


DNS = service("kube-dns", "kube-system", clusterIP="10.96.0.53", ports=[{"name": "dns", "port": 53, "protocol": "UDP"}])


def cluster(*objects: Any, **more: Any) -> ClusterState:
    def of(kind: type) -> list[Any]:
        return [one for one in objects if isinstance(one, kind)]

    namespaces = [
        msgspec.convert({"metadata": {"name": name}}, Namespace) for name in ("default", "prod", "kube-system")
    ]
    return ClusterState(
        now=0.0,
        services=by_key([DNS, *of(Service)]),
        slices=of(EndpointSlice),
        pods=by_key(of(Pod)),
        nodes={one.metadata.name: one for one in (of(Node) or [node()])},
        namespaces={one.metadata.name: one for one in namespaces},
        **more,
    )

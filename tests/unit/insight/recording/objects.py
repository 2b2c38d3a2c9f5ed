"""Objects for recordings, as an API sends them."""

from __future__ import annotations

import gzip
from typing import Any

from bridgehead.insight.recording.format import EndEntry, Entry, Header, ObjectEntry, encode_line

Json = dict[str, Any]

HEADER = Header(version=1, began=1_700_000_000.0)


def recording_of(*entries: Entry, header: Header = HEADER) -> bytes:
    """Return the file of a recording."""
    return gzip.compress(b"".join(map(encode_line, (header, *entries))))


def added(obj: Json, at: float = 0.0) -> ObjectEntry:
    return ObjectEntry(at=at, change="added", object=obj)


def end(at: float = 1.0) -> EndEntry:
    return EndEntry(at=at)


def service(name: str = "web", namespace: str = "default", ip: str = "10.96.3.4", **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": ip,
            "clusterIPs": [ip],
            "selector": {"app": name},
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}],
            **spec,
        },
        "status": {"loadBalancer": {}},
    }


def endpoint_slice(name: str = "web", namespace: str = "default", node: str = "worker-a", *addresses: str) -> Json:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{name}-abcde",
            "namespace": namespace,
            "labels": {"kubernetes.io/service-name": name},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": name, "uid": "1-2-3"}],
        },
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": [address], "conditions": {"ready": True}, "nodeName": node}
            for address in addresses or ("10.244.1.5",)
        ],
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
    }


def node(name: str = "worker-a", **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.168.7.9"}]},
    }


def pod(name: str = "web-1", namespace: str = "default", node: str = "worker-a", **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "web"}},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "web", "image": "nginx", "ports": [{"containerPort": 8080}]}],
            **spec,
        },
        "status": {
            "phase": "Running",
            "podIP": "10.244.1.5",
            "podIPs": [{"ip": "10.244.1.5"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }

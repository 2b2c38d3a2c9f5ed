"""Content of a synthetic cluster: nodes, pods, Services with their endpoints, written into a store without a server.

One object of each kind is created through a real server and controllers first (`template_requests`). `fill` copies
these objects with other names, addresses and UIDs, so that all have the size and the fields of real ones.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from benchmarks.api_load import encode_request
from bridgehead.apiserver.registry.facts import facts_of
from bridgehead.apiserver.resource import copied
from bridgehead.apiserver.resources import build_table
from bridgehead.apiserver.table import ResourceTable
from bridgehead.storage import Key, Store

PODS_PER_NODE = 30
# Kubernetes' limits of a large cluster are 5,000 nodes with 150,000 pods; 44,000 Services are those of `proxy_sync`.
SERVICES_PER_POD = 44_000 / 150_000
NAMESPACE = "/api/v1/namespaces/default"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
POD_RANGE, SERVICE_RANGE = "10.128.0.0/9", "10.96.0.0/12"
_AT_ONCE = 2_000
_encode = msgspec.json.encode
_NOW = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class Cluster:
    """The numbers of a cluster's objects. Nodes, pods and Services are numbered from 0."""

    nodes: int

    @property
    def pods(self) -> int:
        return self.nodes * PODS_PER_NODE

    @property
    def services(self) -> int:
        return max(1, round(self.pods * SERVICES_PER_POD))

    def node_of(self, pod: int) -> int:
        return pod % self.nodes

    def pods_of(self, service: int) -> range:
        """Return the pods that a Service selects."""
        return range(service, self.pods, self.services)

    def pod_address(self, pod: int) -> str:
        node, index = self.node_of(pod), pod // self.nodes
        return f"10.{128 + (node >> 8)}.{node & 255}.{index + 1}"


def service_address(service: int) -> str:
    number = service + 256  # after the addresses of the server itself
    return f"10.{96 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


# --- Requests


def pod(cluster: Cluster, number: int) -> bytes:
    """Return the request that creates a pod, on its node."""
    container = {
        "name": "app",
        "image": "registry.example.com/app:1.2.3",
        "ports": [{"name": "http", "containerPort": 8080}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
    }
    return _create(
        f"{NAMESPACE}/pods",
        {
            "metadata": {"name": f"pod-{number}", "labels": {"app": f"service-{number % cluster.services}"}},
            "spec": {"nodeName": f"node-{cluster.node_of(number)}", "containers": [container]},
        },
    )


def delete_pod(number: int) -> bytes:
    return encode_request("DELETE", f"{NAMESPACE}/pods/pod-{number}", _encode({"gracePeriodSeconds": 0}))


def pod_status(cluster: Cluster, number: int, *, ready: bool) -> bytes:
    """Return a kubelet's patch of a pod's status."""
    state = "True" if ready else "False"
    conditions = [
        {"type": name, "status": status, "lastTransitionTime": _NOW}
        for name, status in (
            ("PodScheduled", "True"),
            ("Initialized", "True"),
            ("ContainersReady", state),
            ("Ready", state),
        )
    ]
    address = cluster.pod_address(number)
    container = {
        "name": "app",
        "image": "registry.example.com/app:1.2.3",
        "imageID": f"registry.example.com/app@sha256:{'0' * 64}",
        "containerID": f"containerd://{'0' * 64}",
        "ready": ready,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": _NOW}},
    }
    status = {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "hostIP": _node_address(cluster.node_of(number)),
        "startTime": _NOW,
        "conditions": conditions,
        "containerStatuses": [container],
    }
    return _patch(f"{NAMESPACE}/pods/pod-{number}/status", {"status": status})


def node_status(number: int, beat: int) -> bytes:
    """Return a kubelet's patch of its node's status: new times of the heartbeat in all conditions."""
    at = f"2026-01-01T{beat // 3600 % 24:02}:{beat // 60 % 60:02}:{beat % 60:02}Z"
    conditions = [
        {
            "type": name,
            "status": "True" if name == "Ready" else "False",
            "reason": f"Kubelet{name}",
            "message": f"kubelet reports {name}",
            "lastHeartbeatTime": at,
            "lastTransitionTime": _NOW,
        }
        for name in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    return _patch(f"/api/v1/nodes/node-{number}/status", {"status": {"conditions": conditions}})


def renew_lease(number: int, beat: int) -> bytes:
    """Return a kubelet's renewal of its Lease (`client.renew_lease`)."""
    return _patch(f"{LEASES}/node-{number}", {"spec": _lease(number, beat)["spec"]})


def mark_slice(name: str, mark: str) -> bytes:
    return _patch(f"{SLICES}/{name}", {"metadata": {"annotations": {"mark": mark}}})


def mark_service(number: int, mark: str) -> bytes:
    return _patch(f"{NAMESPACE}/services/service-{number}", {"metadata": {"annotations": {"mark": mark}}})


def mark_pod(number: int, mark: str) -> bytes:
    """Return a change of a pod that concerns only its kubelet."""
    return _patch(f"{NAMESPACE}/pods/pod-{number}/status", {"status": {"message": mark}})


def template_requests(cluster: Cluster) -> list[bytes]:
    """Return the requests that create the first object of each kind; endpoints are the controllers'.

    The server itself creates the first two, so they may be refused with a 409.
    """
    node = {
        "metadata": {"name": "node-0", "labels": {"kubernetes.io/hostname": "node-0", "kubernetes.io/os": "linux"}},
        "status": {
            "capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"},
            "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
            "addresses": [{"type": "InternalIP", "address": _node_address(0)}],
            "nodeInfo": {"kubeletVersion": "v1.36.0", "kernelVersion": "6.12.0", "osImage": "Debian GNU/Linux 12"},
        },
    }
    service = {
        "metadata": {"name": "service-0", "labels": {"app": "service-0"}},
        "spec": {
            "clusterIP": service_address(0),
            "selector": {"app": "service-0"},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }
    root = {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "x" * 1100}}
    return [
        _create("/api/v1/namespaces", {"metadata": {"name": "kube-node-lease"}}),
        _create(f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}}),
        _create("/api/v1/nodes", node),
        node_status(0, 0),
        _create(LEASES, _lease(0, 0)),
        _create(f"{NAMESPACE}/configmaps", root),
        _create(f"{NAMESPACE}/services", service),
        pod(cluster, 0),
        pod_status(cluster, 0, ready=True),
    ]


def _create(path: str, obj: dict[str, Any]) -> bytes:
    return encode_request("POST", path, _encode(obj))


def _patch(path: str, patch: dict[str, Any]) -> bytes:
    return encode_request("PATCH", path, _encode(patch), content_type="application/merge-patch+json")


def _lease(number: int, beat: int) -> dict[str, Any]:
    name = f"node-{number}"
    time = f"2026-01-01T00:{beat // 60 % 60:02}:{beat % 60:02}.000000Z"
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": time}
    return {"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": spec}


def _node_address(number: int) -> str:
    return f"10.0.{number >> 8}.{number & 255}"


# --- Content of the store


async def fill(store: Store, cluster: Cluster) -> int:
    """Copy the templates in the store until it has the whole cluster; return the number of new objects."""
    table = ResourceTable(build_table(service_cidrs=(SERVICE_RANGE,), node_port_range=(30000, 32767)))
    count = 0
    pending = []
    for resource, obj in _copies(store, cluster):
        meta = obj["metadata"]
        key = Key(resource, meta.get("namespace", ""), meta["name"])
        pending.append(store.create(key, obj, facts_of(table.by_id(resource), obj)))
        count += 1
        if len(pending) == _AT_ONCE:
            await asyncio.gather(*pending)
            pending = []
    await asyncio.gather(*pending)
    return count


def _copies(store: Store, cluster: Cluster) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a resource's id and an object that it lacks."""
    node, lease, pod_, service, address, slice_, endpoints = (
        _template(store, resource, namespace, name)
        for resource, namespace, name in (
            ("nodes", "", "node-0"),
            ("leases.coordination.k8s.io", "kube-node-lease", "node-0"),
            ("pods", "default", "pod-0"),
            ("services", "default", "service-0"),
            ("ipaddresses.networking.k8s.io", "", service_address(0)),
            ("endpointslices.discovery.k8s.io", "default", "service-0"),
            ("endpoints", "default", "service-0"),
        )
    )
    for number in _in_order(cluster.nodes):
        yield "nodes", _node(node, number)
        yield "leases.coordination.k8s.io", _renamed(lease, f"node-{number}") | {"spec": _lease(number, 0)["spec"]}
    for number in _in_order(cluster.pods):
        yield "pods", _pod(pod_, cluster, number)
    for number in _in_order(cluster.services):
        yield "services", _service(service, number)
        parent = {**address["spec"]["parentRef"], "name": f"service-{number}"}
        yield (
            "ipaddresses.networking.k8s.io",
            _renamed(address, service_address(number)) | {"spec": {"parentRef": parent}},
        )
        yield "endpointslices.discovery.k8s.io", _endpoint_slice(slice_, cluster, number)
        yield "endpoints", _endpoints(endpoints, cluster, number)


def _in_order(count: int) -> list[int]:
    """Return the numbers from 1 on in the order of their names, in which stores take new objects fastest."""
    return sorted(range(1, count), key=str)


def _template(store: Store, resource: str, namespace: str, name: str) -> dict[str, Any]:
    """Return an object; the controllers add letters to the name of an EndpointSlice. Raises RuntimeError."""
    for record in store.list(resource, namespace or None):
        found = record.key.name
        if found == name or (resource.startswith("endpointslices") and found.startswith(f"{name}-")):
            obj: dict[str, Any] = msgspec.json.decode(record.value)
            return obj
    raise RuntimeError(f"the server has no {resource} {name}")


def uid(kind: str, number: int) -> str:
    """Return the UID of an object of the synthetic cluster, to which others may refer."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{kind} {number}"))


def _renamed(template: dict[str, Any], name: str, own_uid: str = "") -> dict[str, Any]:
    """Return a copy of an object with another name and UID."""
    obj: dict[str, Any] = copied(template)
    obj["metadata"] |= {"name": name, "uid": own_uid or str(uuid.uuid4())}
    return obj


def _node(template: dict[str, Any], number: int) -> dict[str, Any]:
    obj = _renamed(template, f"node-{number}", uid("node", number))
    obj["metadata"]["labels"]["kubernetes.io/hostname"] = f"node-{number}"
    obj["status"]["addresses"] = [{"type": "InternalIP", "address": _node_address(number)}]
    pod_range = f"10.{128 + (number >> 8)}.{number & 255}.0/24"
    obj["spec"] |= {"podCIDR": pod_range, "podCIDRs": [pod_range]}
    return obj


def _pod(template: dict[str, Any], cluster: Cluster, number: int) -> dict[str, Any]:
    obj = _renamed(template, f"pod-{number}", uid("pod", number))
    obj["metadata"]["labels"] = {"app": f"service-{number % cluster.services}"}
    node, address = cluster.node_of(number), cluster.pod_address(number)
    obj["spec"]["nodeName"] = f"node-{node}"
    obj["status"] |= {"podIP": address, "podIPs": [{"ip": address}], "hostIP": _node_address(node)}
    return obj


def _service(template: dict[str, Any], number: int) -> dict[str, Any]:
    name, address = f"service-{number}", service_address(number)
    obj = _renamed(template, name, uid("service", number))
    obj["metadata"]["labels"] = {"app": name}
    obj["spec"] |= {"selector": {"app": name}, "clusterIP": address, "clusterIPs": [address]}
    return obj


def _endpoint_slice(template: dict[str, Any], cluster: Cluster, service: int) -> dict[str, Any]:
    name = f"service-{service}"
    obj = _renamed(template, f"{name}-aaaaa")
    meta = obj["metadata"]
    meta["labels"] |= {"app": name, "kubernetes.io/service-name": name}
    meta["ownerReferences"] = [{**meta["ownerReferences"][0], "name": name, "uid": uid("service", service)}]
    first = obj["endpoints"][0]
    obj["endpoints"] = [
        first
        | {
            "addresses": [cluster.pod_address(pod)],
            "nodeName": f"node-{cluster.node_of(pod)}",
            "targetRef": first["targetRef"] | {"name": f"pod-{pod}", "uid": uid("pod", pod)},
        }
        for pod in cluster.pods_of(service)
    ]
    return obj


def _endpoints(template: dict[str, Any], cluster: Cluster, service: int) -> dict[str, Any]:
    name = f"service-{service}"
    obj = _renamed(template, name)
    obj["metadata"]["labels"] |= {"app": name}
    subset = obj["subsets"][0]
    first = subset["addresses"][0]
    subset["addresses"] = [
        first
        | {
            "ip": cluster.pod_address(pod),
            "nodeName": f"node-{cluster.node_of(pod)}",
            "targetRef": first["targetRef"] | {"name": f"pod-{pod}", "uid": uid("pod", pod)},
        }
        for pod in sorted(cluster.pods_of(service), key=cluster.pod_address)
    ]
    return obj

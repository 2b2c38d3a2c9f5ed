"""Content of a synthetic cluster: nodes, pods, Services with their endpoints, written into a store without a server.

One object of each kind is created through a real server and controllers first (`template_requests`). `fill` copies
these objects with other names, addresses and UIDs, so that all have the size and the fields of real ones.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from benchmarks.api_load import encode_request
from bridgehead.storage import Change, Facts, Key, Record
from bridgehead.storage.sqlite import Database

PODS_PER_NODE = 30
# Kubernetes' limits of a large cluster are 5,000 nodes with 150,000 pods; 44,000 Services are those of `proxy_sync`.
SERVICES_PER_POD = 44_000 / 150_000
NAMESPACE = "/api/v1/namespaces/default"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
POD_RANGE = "10.128.0.0/9"
_AT_ONCE = 10_000
_encode = msgspec.json.encode
_decode_facts = msgspec.json.Decoder(Facts).decode
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


class _Template(NamedTuple):
    """An object as the server has stored it. Copies replace names, addresses and UIDs in its bytes."""

    key: Key
    revision: bytes
    value: bytes
    facts: bytes

    @property
    def uid(self) -> bytes:
        found: str = msgspec.json.decode(self.value)["metadata"]["uid"]
        return found.encode()

    def copy(self, replaced: Replacements, revision: int) -> Record:
        value, facts, name = self.value, self.facts, self.key.name.encode()
        for old, new in replaced:
            value, facts, name = value.replace(old, new), facts.replace(old, new), name.replace(old, new)
        value = value.replace(self.revision, b'"resourceVersion":"%d"' % revision, 1)
        return Record(self.key._replace(name=name.decode()), revision, value, _decode_facts(facts))


Replacements = Sequence[tuple[bytes, bytes]]


def fill(database: Database, cluster: Cluster) -> int:
    """Copy the templates in a database until it has the whole cluster; return the number of new objects."""
    records, revision = database.load()
    content = _Content(cluster, records)
    count = 0
    copies = content.copies(revision + 1)
    while batch := [Change("ADDED", record) for record in itertools.islice(copies, _AT_ONCE)]:
        database.commit(batch)
        count += len(batch)
    return count


class _Content:
    """The objects that a cluster has beside the templates. Raises RuntimeError if one of these is missing."""

    def __init__(self, cluster: Cluster, records: Iterable[Record]) -> None:
        self._cluster = cluster
        self._records = list(records)
        self._node = self._find("nodes", "node-0")
        self._pod = self._find("pods", "pod-0")
        self._service = self._find("services", "service-0")
        self._uids = {"node": self._node.uid, "pod": self._pod.uid, "service": self._service.uid}

    def _find(self, resource: str, name: str) -> _Template:
        """Return an object; the controllers add letters to the name of an EndpointSlice."""
        for key, revision, value, facts in (
            (record.key, record.revision, record.value, record.facts) for record in self._records
        ):
            if key.resource == resource and (key.name == name or key.name.startswith(f"{name}-")):
                return _Template(key, b'"resourceVersion":"%d"' % revision, value, _encode(facts))
        raise RuntimeError(f"the server has no {resource} {name}")

    def copies(self, revision: int) -> Iterator[Record]:
        """Yield the objects, with revisions from this one on."""
        for template, replaced in self._replaced():
            yield template.copy(replaced, revision)
            revision += 1

    def _replaced(self) -> Iterator[tuple[_Template, Replacements]]:
        cluster = self._cluster
        lease = self._find("leases.coordination.k8s.io", "node-0")
        for number in range(1, cluster.nodes):
            node = [*self._of_node(number), self._uid("node", number)]
            yield self._node, [*node, (b"10.128.0.0/24", b"10.%d.%d.0/24" % (128 + (number >> 8), number & 255))]
            yield lease, [*self._of_node(number), (lease.uid, _uid("lease", number))]
        for number in range(1, cluster.pods):
            yield self._pod, [*self._of_pod(number), _pair("service-0", f"service-{number % cluster.services}")]
        address = self._find("ipaddresses.networking.k8s.io", service_address(0))
        slice_ = self._find("endpointslices.discovery.k8s.io", "service-0")
        endpoints = self._find("endpoints", "service-0")
        for number in range(1, cluster.services):
            service = [
                _pair("service-0", f"service-{number}"),
                _pair(service_address(0), service_address(number)),
                self._uid("service", number),
            ]
            yield self._service, service
            for template in (address, slice_, endpoints):
                members = self._members(template, cluster.pods_of(number))
                yield template, [*members, *service, (template.uid, _uid(template.key.resource, number))]

    def _members(self, template: _Template, pods: range) -> Replacements:
        """Return the replacement of an object's only endpoint by those of these pods; none if it has no endpoint."""
        obj = msgspec.json.decode(template.value)
        found = obj.get("endpoints") or [
            address for subset in obj.get("subsets", ()) for address in subset["addresses"]
        ]
        if not found:
            return ()
        one = _encode(found[0])
        texts = []
        # Both forms have the order of the addresses' text.
        for pod_ in sorted(pods, key=self._cluster.pod_address):
            text = one
            for old, new in self._of_pod(pod_):
                text = text.replace(old, new)
            texts.append(text)
        return [(one, b",".join(texts))]

    def _of_node(self, number: int) -> Replacements:
        return _pair("node-0", f"node-{number}"), _pair(_node_address(0), _node_address(number))

    def _of_pod(self, number: int) -> Replacements:
        return (
            _pair("pod-0", f"pod-{number}"),
            _pair(self._cluster.pod_address(0), self._cluster.pod_address(number)),
            self._uid("pod", number),
            *self._of_node(self._cluster.node_of(number)),
        )

    def _uid(self, kind: str, number: int) -> tuple[bytes, bytes]:
        return self._uids[kind], _uid(kind, number)


def _pair(old: str, new: str) -> tuple[bytes, bytes]:
    return old.encode(), new.encode()


def _uid(kind: str, number: int) -> bytes:
    """Return the UID of an object, to which others may refer."""
    return b"%08x-0000-4000-8000-%012x" % (zlib.crc32(kind.encode()), number)

"""What a node may do: its own Node and Lease, the pods bound to it, and what those pods use.

Source: Kubernetes "Using Node Authorization" and the NodeRestriction admission plug-in. A node is a user
`system:node:NAME` in the group `system:nodes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from bridgehead.apiserver.http.paths import RequestInfo
from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.resource import JsonObject
from bridgehead.storage import Key, Store

from .authorization import Rule

_PREFIX = "system:node:"
_GROUP = "system:nodes"
_READ = ("get", "list", "watch")

# What every node may do, whatever its name.
_RULES = (
    Rule(_READ, ("",), ("services", "pods", "nodes")),
    Rule(("create", "update", "patch"), ("", "events.k8s.io"), ("events",)),
    # How far the proxies are: a node holds its pods until no other one sends them new connections.
    Rule(_READ, ("discovery.k8s.io",), ("endpointslices",)),
    Rule(_READ, ("coordination.k8s.io",), ("leases",), namespace="kube-system"),
    Rule(("create",), ("authentication.k8s.io",), ("tokenreviews",)),
    Rule(("create",), ("authorization.k8s.io",), ("subjectaccessreviews", "localsubjectaccessreviews")),
    # A node registers itself; under which name is checked below.
    Rule(("create",), ("",), ("nodes",)),
)
_LEASE_NAMESPACE = "kube-node-lease"


def node_name_of(user: User) -> str | None:
    """None for a user that is no node."""
    if _GROUP not in user.groups or not user.name.startswith(_PREFIX):
        return None
    return user.name.removeprefix(_PREFIX)


class NodeAuthorizer:
    """Reads the pods of a node from the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __call__(self, user: User, request: RequestInfo) -> bool:
        node = node_name_of(user)
        if node is None or not request.is_resource:
            return False
        if any(rule.allows(request) for rule in _RULES):
            return True
        match request.group, request.rule_resource:
            case "", "nodes" | "nodes/status":
                return request.verb in ("update", "patch") and request.name == node
            case "coordination.k8s.io", "leases":
                # The name of a new lease is in its body, which is not read yet; only its namespace is known.
                return request.namespace == _LEASE_NAMESPACE and (
                    request.verb == "create"
                    or (request.verb in ("get", "update", "patch", "delete") and request.name == node)
                )
            case "", "pods" | "pods/status" | "pods/eviction":
                return self._may_write_pod(node, request)
            case "", "configmaps" | "secrets":
                return request.verb in _READ and self._is_used(node, request)
            case "", "serviceaccounts/token":
                return request.verb == "create" and self._runs_as(node, request)
        return False

    def _may_write_pod(self, node: str, request: RequestInfo) -> bool:
        allowed = {"pods": ("delete",), "pods/status": ("update", "patch"), "pods/eviction": ("create",)}
        if request.verb not in allowed[request.rule_resource]:
            return False
        record = self._store.get(Key("pods", request.namespace, request.name))
        # One that is gone is answered with a 404, not with a refusal.
        return record is None or record.facts.fields.get("spec.nodeName") == node

    def _pods(self, node: str, namespace: str) -> Iterator[JsonObject]:
        for record in self._store.list("pods", namespace):
            if record.facts.fields.get("spec.nodeName") == node:
                yield msgspec.json.decode(record.value)

    def _is_used(self, node: str, request: RequestInfo) -> bool:
        if not request.name or not request.namespace:
            return False
        wanted = ("configmap" if request.resource == "configmaps" else "secret", request.name)
        return any(wanted in set(references(pod.get("spec", {}))) for pod in self._pods(node, request.namespace))

    def _runs_as(self, node: str, request: RequestInfo) -> bool:
        return any(
            pod.get("spec", {}).get("serviceAccountName", "default") == request.name
            for pod in self._pods(node, request.namespace)
        )


_SOURCES = {
    "configMap": ("configmap", "name"),
    "configMapRef": ("configmap", "name"),
    "configMapKeyRef": ("configmap", "name"),
    "secret": ("secret", "name"),
    "secretRef": ("secret", "name"),
    "secretKeyRef": ("secret", "name"),
}


def references(spec: Any) -> Iterator[tuple[str, str]]:
    """("configmap" or "secret", name) of everything a pod's spec refers to."""
    if isinstance(spec, list):
        for item in spec:
            yield from references(item)
        return
    if not isinstance(spec, dict):
        return
    for field, value in spec.items():
        if field in _SOURCES and isinstance(value, dict):
            kind, key = _SOURCES[field]
            name = value.get("secretName") or value.get(key)
            if name:
                yield kind, name
        elif field == "imagePullSecrets" and isinstance(value, list):
            yield from (("secret", item["name"]) for item in value if item.get("name"))
        elif isinstance(value, dict | list):
            yield from references(value)

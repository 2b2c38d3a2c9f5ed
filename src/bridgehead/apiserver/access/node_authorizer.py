"""Authorization of nodes: their own Node and Lease, the pods bound to them, and objects that these pods refer to.

A node is a user `system:node:NAME` in the group `system:nodes`. `node_restriction` checks the content that a node
writes, and the ownership of objects that the URL does not show.
Source: Kubernetes "Using Node Authorization", plugin/pkg/auth/authorizer/node, NodeRules of bootstrappolicy/policy.go.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bridgehead.apiserver.http.paths import RequestInfo
from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.pods import MIRROR_POD, references
from bridgehead.apiserver.resources.rbac import Rule
from bridgehead.objects import progress
from bridgehead.objects.selectors import parse_field_selector
from bridgehead.storage import Key, Store

from .rbac.policy import Decision

_PREFIX = "system:node:"
_GROUP = "system:nodes"
_READ = ("get", "list", "watch")

LEASE_NAMESPACE = "kube-node-lease"

# Rights of every node.
_RULES = (
    Rule(_READ, ("",), ("services",)),
    Rule(("create", "update", "patch"), ("", "events.k8s.io"), ("events",)),
    # The kubelet keeps a terminating pod running until no proxy sends it new connections. Not in NodeRules.
    Rule(("list", "watch"), ("discovery.k8s.io",), ("endpointslices",)),
    Rule(("create", "get", "list", "watch"), ("certificates.k8s.io",), ("certificatesigningrequests",)),
    Rule(("create",), ("authentication.k8s.io",), ("tokenreviews",)),
    Rule(("create",), ("authorization.k8s.io",), ("subjectaccessreviews", "localsubjectaccessreviews")),
)
_ALLOWED = Decision(True)
_NO_OPINION = Decision(False)


def node_name_of(user: User) -> str | None:
    """Return a node's name; None for a user that is not a node, "" for a node without a name."""
    if _GROUP not in user.groups or not user.name.startswith(_PREFIX):
        return None
    return user.name.removeprefix(_PREFIX)


class NodeAuthorizer:
    """Authorization of nodes by the pods in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __call__(self, user: User, request: RequestInfo) -> Decision:
        node = node_name_of(user)
        if node is None or not request.is_resource:
            return _NO_OPINION
        if not node:
            return Decision(False, f'unknown node for user "{user.name}"')
        match request.group, request.resource:
            case "", "nodes":
                return _decide_node(node, request)
            case "", "pods":
                return self._decide_pod(node, request)
            case "", "configmaps" | "secrets":
                return self._decide_payload(node, request)
            case "", "serviceaccounts":
                return self._decide_token(node, request)
            case "coordination.k8s.io", "leases":
                return _decide_lease(node, request)
        asked = (request.verb, request.group, request.resource, request.subresource, request.name)
        return _ALLOWED if any(rule.allows(*asked) for rule in _RULES) else _NO_OPINION

    def _decide_pod(self, node: str, request: RequestInfo) -> Decision:
        match request.subresource, request.verb:
            # `node_restriction` checks which pods these are.
            case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
                return _ALLOWED
            case "", "get":
                return self._decide_related(node, self._has_pod(node, request))
            case "", "list" | "watch":
                if _selects_own_pods(node, request.field_selector):
                    return _ALLOWED
                if request.name:
                    return self._decide_related(node, self._has_pod(node, request))
                return Decision(False, "can only list/watch pods with spec.nodeName field selector")
        return _NO_OPINION

    def _decide_payload(self, node: str, request: RequestInfo) -> Decision:
        """Allow reading one ConfigMap or Secret that a pod of the node refers to."""
        if request.verb not in _READ:
            return Decision(False, "can only read resources of this type")
        if request.subresource:
            return Decision(False, "cannot read subresource")
        if not request.namespace:
            return Decision(False, "can only read namespaced object of this type")
        if not request.name:
            return Decision(False, "No Object name found")
        wanted = ("configmap" if request.resource == "configmaps" else "secret", request.name)
        pods = self._pods(node, request.namespace)
        return self._decide_related(node, any(wanted in references(pod.get("spec", {})) for pod in pods))

    def _decide_token(self, node: str, request: RequestInfo) -> Decision:
        if request.verb != "create" or not request.name:
            return Decision(False, "can only create tokens for individual service accounts")
        if request.subresource != "token":
            return Decision(False, "can only create token subresource of serviceaccount")
        pods = self._pods(node, request.namespace)
        runs = any(pod.get("spec", {}).get("serviceAccountName", "") == request.name for pod in pods)
        return self._decide_related(node, runs)

    @staticmethod
    def _decide_related(node: str, is_related: bool) -> Decision:
        if is_related:
            return _ALLOWED
        return Decision(False, f"no relationship found between node '{node}' and this object")

    def _has_pod(self, node: str, request: RequestInfo) -> bool:
        record = self._store.get(Key("pods", request.namespace, request.name))
        return record is not None and record.facts.fields.get("spec.nodeName") == node

    def _pods(self, node: str, namespace: str) -> Iterator[JsonObject]:
        """Yield the node's pods but mirror pods: a node creates these itself, and they must give it no rights."""
        for record in self._store.list("pods", namespace):
            if record.facts.fields.get("spec.nodeName") == node:
                pod = msgspec.json.decode(record.value)
                if MIRROR_POD not in pod["metadata"].get("annotations", {}):
                    yield pod


def _decide_node(node: str, request: RequestInfo) -> Decision:
    match request.subresource, request.verb:
        # `node_restriction` checks which Node is written: a create names it only in the body.
        case ("", "create" | "update" | "patch") | ("status", "update" | "patch"):
            return _ALLOWED
        case "", "get" | "list" | "watch":
            if request.name == node:
                return _ALLOWED
            other = f"'{request.name}'" if request.name else "all nodes"
            return Decision(False, f"node '{node}' cannot read {other}, only its own Node object")
    return _NO_OPINION


def _decide_lease(node: str, request: RequestInfo) -> Decision:
    if request.namespace == progress.NAMESPACE and request.verb in ("list", "watch"):
        # The proxies' progress, for which the kubelet waits before it stops a pod. Not in Kubernetes.
        return _ALLOWED if request.label_selector == progress.SELECTOR else _NO_OPINION
    if request.verb not in ("get", "create", "update", "patch", "delete"):
        return Decision(False, "can only get, create, update, patch, or delete a node lease")
    if request.namespace != LEASE_NAMESPACE:
        return Decision(False, f'can only access leases in the "{LEASE_NAMESPACE}" system namespace')
    if request.verb != "create" and request.name != node:
        return Decision(False, "can only access node lease with the same name as the requesting node")
    return _ALLOWED


def _selects_own_pods(node: str, field_selector: str) -> bool:
    try:
        requirements = parse_field_selector(field_selector).requirements
    except ValueError:
        return False
    return any(
        one.key == "spec.nodeName" and one.operator == "in" and one.values == frozenset((node,)) for one in requirements
    )

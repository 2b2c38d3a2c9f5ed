"""Authorization of nodes: their own Node, Lease and CSINode, the pods bound to them, and objects that these pods use.

A node is a user `system:node:NAME` in the group `system:nodes`. `node_restriction` checks the content that a node
writes, and the ownership of objects that the URL does not show.
Source: Kubernetes "Using Node Authorization", plugin/pkg/auth/authorizer/node, NodeRules of bootstrappolicy/policy.go.
"""

from __future__ import annotations

from bridgehead.apiserver.errors import qualified
from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.resources.rbac import Rule
from bridgehead.objects import progress
from bridgehead.objects.selectors import parse_field_selector
from bridgehead.storage import Key

from .node_relations import NodeRelations
from .rbac.rbac_authorizer import Decision

_PREFIX = "system:node:"
_GROUP = "system:nodes"
_READ = ("get", "list", "watch")

LEASE_NAMESPACE = "kube-node-lease"

# Rights of every node.
_RULES = (
    Rule(_READ, ("",), ("services",)),
    Rule(("get",), ("",), ("endpoints",)),
    Rule(_READ, ("storage.k8s.io",), ("csidrivers",)),
    Rule(_READ, ("node.k8s.io",), ("runtimeclasses",)),
    Rule(("create", "update", "patch"), ("", "events.k8s.io"), ("events",)),
    # The kubelet keeps a terminating pod running until no proxy sends it new connections. NodeRules has no such rule.
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
    """Authorization of nodes by the objects that their pods use."""

    def __init__(self, relations: NodeRelations) -> None:
        self._relations = relations

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
                return self._decide_read(node, request)
            case "", "persistentvolumeclaims" if request.subresource == "status":
                return self._decide_status(node, request)
            case (
                ("", "persistentvolumeclaims" | "persistentvolumes")
                | ("resource.k8s.io", "resourceclaims")
                | ("storage.k8s.io", "volumeattachments")
            ):
                return self._decide_get(node, request)
            case "", "serviceaccounts":
                return self._decide_account(node, request)
            case "coordination.k8s.io", "leases":
                return _decide_lease(node, request)
            case "storage.k8s.io", "csinodes":
                return _decide_csi_node(node, request)
            case "resource.k8s.io", "resourceslices":
                return self._decide_slice(node, request)
        asked = (request.verb, request.group, request.resource, request.subresource, request.name)
        return _ALLOWED if any(rule.allows(*asked) for rule in _RULES) else _NO_OPINION

    def _decide_pod(self, node: str, request: RequestInfo) -> Decision:
        match request.subresource, request.verb:
            # `node_restriction` checks which pods these are.
            case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
                return _ALLOWED
            case "", "get":
                return self._decide_related(node, request)
            case "", "list" | "watch":
                if _selects_node("spec.nodeName", node, request.field_selector):
                    return _ALLOWED
                if request.name:
                    return self._decide_related(node, request)
                return Decision(False, "can only list/watch pods with spec.nodeName field selector")
        return _NO_OPINION

    def _decide_read(self, node: str, request: RequestInfo) -> Decision:
        """Allow reading, also by a watch, of one related object in a namespace."""
        if request.verb not in _READ:
            return Decision(False, "can only read resources of this type")
        if request.subresource:
            return Decision(False, "cannot read subresource")
        if not request.namespace:
            return Decision(False, "can only read namespaced object of this type")
        return self._decide_related(node, request)

    def _decide_get(self, node: str, request: RequestInfo) -> Decision:
        if request.verb != "get":
            return Decision(False, "can only get individual resources of this type")
        if request.subresource:
            return Decision(False, "cannot get subresource")
        return self._decide_related(node, request)

    def _decide_status(self, node: str, request: RequestInfo) -> Decision:
        if request.verb not in ("update", "patch"):
            return Decision(False, "can only get/update/patch this type")
        return self._decide_related(node, request)

    def _decide_account(self, node: str, request: RequestInfo) -> Decision:
        if request.verb == "get" and not request.subresource:
            return self._decide_read(node, request)  # for credential providers of images
        if request.verb != "create" or not request.name:
            return Decision(False, "can only create tokens for individual service accounts")
        if request.subresource != "token":
            return Decision(False, "can only create token subresource of serviceaccount")
        return self._decide_related(node, request)

    def _decide_slice(self, node: str, request: RequestInfo) -> Decision:
        if request.subresource:
            return Decision(False, "cannot authorize ResourceSlice subresources")
        match request.verb:
            case "create":
                return _ALLOWED  # `node_restriction` checks the node of the new object
            case "get" | "update" | "patch" | "delete":
                return self._decide_related(node, request)
            case "watch" | "list" | "deletecollection":
                if _selects_node("spec.nodeName", node, request.field_selector):
                    return _ALLOWED
                why = "can only list/watch/deletecollection resourceslices with spec.nodeName field selector"
                return Decision(False, why)
        why = "get, watch, list, create, update, patch, delete, deletecollection"
        return Decision(False, f"only the following verbs are allowed for a ResourceSlice: {why}")

    def _decide_related(self, node: str, request: RequestInfo) -> Decision:
        if not request.name:
            return Decision(False, "No Object name found")
        key = Key(qualified(request.resource, request.group), request.namespace, request.name)
        if self._relations.has(node, key):
            return _ALLOWED
        return Decision(False, f"no relationship found between node '{node}' and this object")


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
        # The proxies' progress, for which the kubelet waits before it stops a pod. Kubernetes has no such rule.
        return _ALLOWED if request.label_selector == progress.SELECTOR else _NO_OPINION
    if request.verb not in ("get", "create", "update", "patch", "delete"):
        return Decision(False, "can only get, create, update, patch, or delete a node lease")
    if request.namespace != LEASE_NAMESPACE:
        return Decision(False, f'can only access leases in the "{LEASE_NAMESPACE}" system namespace')
    if request.verb != "create" and request.name != node:
        return Decision(False, "can only access node lease with the same name as the requesting node")
    return _ALLOWED


def _decide_csi_node(node: str, request: RequestInfo) -> Decision:
    if request.verb not in ("get", "create", "update", "patch", "delete"):
        return Decision(False, "can only get, create, update, patch, or delete a CSINode")
    if request.subresource:
        return Decision(False, "cannot authorize CSINode subresources")
    if request.verb != "create" and request.name != node:
        return Decision(False, "can only access CSINode with the same name as the requesting node")
    return _ALLOWED


def _selects_node(field: str, node: str, field_selector: str) -> bool:
    try:
        requirements = parse_field_selector(field_selector).requirements
    except ValueError:
        return False
    return any(one.key == field and one.operator == "in" and one.values == frozenset((node,)) for one in requirements)

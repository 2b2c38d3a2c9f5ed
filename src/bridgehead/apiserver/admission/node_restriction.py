"""Admission of what nodes write, for requests that `node_authorizer` has allowed.

A node may write only its own Node, Lease and pods, and nothing that could attract workloads or traffic to it: no labels
or taints of the control plane, no labels of pods, no owners.
Source: plugin/pkg/admission/noderestriction, also for the texts of refusals.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bridgehead.apiserver.access.authorization import Authorizer
from bridgehead.apiserver.access.node_authorizer import LEASE_NAMESPACE, node_name_of
from bridgehead.apiserver.errors import forbidden, not_found_named
from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.apiserver.resources.certificates import common_name_of
from bridgehead.apiserver.resources.pods import references
from bridgehead.objects.critical_pods import MIRROR_POD
from bridgehead.objects.node_labels import find_restricted
from bridgehead.storage import Key, Store

from .attributes import CREATE, DELETE, Attributes, shown_name
from .chain import Plugin
from .token_audiences import uses_audience

_CERTIFICATES = "certificatesigningrequests.certificates.k8s.io"
_CSI_NODES, _SLICES = "csinodes.storage.k8s.io", "resourceslices.resource.k8s.io"
_RESTRICTED = frozenset(
    {
        "nodes",
        "pods",
        "leases.coordination.k8s.io",
        "serviceaccounts",
        "persistentvolumeclaims",
        _CERTIFICATES,
        _CSI_NODES,
        _SLICES,
    }
)
# Fields that a node writes to the status of a claim while it resizes its volume.
_RESIZING = ("capacity", "conditions", "allocatedResources", "allocatedResourceStatuses")
# The right to tokens for audiences that a pod's volumes do not use; the resource of the rule is the audience.
_TOKEN_VERB = "request-serviceaccounts-token-audience"
_OF_WRITES = ("resourceVersion", "managedFields")
_NODE_SIGNERS = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")


class NodeRestriction(Plugin):
    """The plug-in NodeRestriction. Other users than nodes are not restricted."""

    changes = False

    def __init__(self, store: Store, authorizer: Authorizer) -> None:
        self._store = store
        self._authorizer = authorizer

    def handles(self, attributes: Attributes) -> bool:
        return node_name_of(attributes.user) is not None and attributes.resource.id in _RESTRICTED

    async def mutate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> JsonObject:
        """Check what the node wants to write, before other plug-ins and the resource's hooks change it."""
        resource = attributes.resource
        node = _node_of(attributes.user, resource)
        match resource.id, attributes.subresource:
            case "serviceaccounts", "token":
                self._check_token(node, attributes, obj.get("spec", {}))
            case "leases.coordination.k8s.io", _:
                _check_lease(node, resource, attributes.namespace, _name(attributes, obj, old))
            case "csinodes.storage.k8s.io", _ if _name(attributes, obj, old) != node:
                why = "can only access CSINode with the same name as the requesting node"
                raise forbidden(resource, _name(attributes, obj, old), why)
            case "resourceslices.resource.k8s.io", _:
                _check_slice(node, attributes, obj, old)
            case "persistentvolumeclaims", "status":
                _check_claim_status(node, resource, attributes.name, obj, old)
            case "certificatesigningrequests.certificates.k8s.io", "" if attributes.operation == CREATE:
                _check_certificate(attributes, obj)
            case "nodes", _:
                self._check_node(node, attributes, obj, old)
            case "pods", "eviction":
                if self._node_of_pod(attributes.namespace, attributes.name) != node:
                    why = f"node {node} can only evict pods with spec.nodeName set to itself"
                    raise forbidden(resource, attributes.name, why)
            case "pods", _:
                self._check_pod(node, attributes, obj, old)
        return obj

    def _check_node(self, node: str, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        resource, name = attributes.resource, _name(attributes, obj, old)
        match attributes.operation:
            case "CREATE":
                _check_new_node(node, resource, name, obj)
            case "UPDATE":
                _check_changed_node(node, resource, name, obj, old)
            case "DELETE":
                _check_own_node(node, resource, name)

    def _check_pod(self, node: str, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        resource, name = attributes.resource, _name(attributes, obj, old)
        match attributes.operation:
            case "CREATE":
                self._check_new_pod(node, resource, name, obj)
            case "UPDATE":
                _check_pod_status(node, resource, name, obj, old)
            case "DELETE" if old.get("spec", {}).get("nodeName", "") != node:
                why = f'node "{node}" can only delete pods with spec.nodeName set to itself'
                raise forbidden(resource, name, why)

    def _check_token(self, node: str, attributes: Attributes, spec: JsonObject) -> None:
        """Check a TokenRequest: a node gets tokens only for its pods and for the audiences that they use."""
        accounts, namespace, name = attributes.resource, attributes.namespace, attributes.name
        bound = spec.get("boundObjectRef", {})
        if bound.get("apiVersion") != "v1" or bound.get("kind") != "Pod" or not bound.get("name"):
            raise forbidden(accounts, name, "node requested token not bound to a pod")
        if not bound.get("uid"):
            raise forbidden(accounts, name, "node requested token with a pod binding without a uid")
        pod = self._read_pod(namespace, bound["name"])
        if bound["uid"] != pod["metadata"]["uid"]:
            why = (
                f"the UID in the bound object reference ({bound['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise forbidden(accounts, name, why)
        if pod.get("spec", {}).get("nodeName", "") != node:
            raise forbidden(accounts, name, "node requested token bound to a pod scheduled on a different node")
        audiences = spec.get("audiences", ())
        if len(audiences) > 1:
            raise forbidden(accounts, name, "node may only request 0 or 1 audiences")
        audience = audiences[0] if audiences else ""
        try:
            is_used = uses_audience(self._store, pod, audience)
        except LookupError as error:
            raise forbidden(accounts, name, f'error validating audience "{audience}": {error}') from error
        right = RequestInfo("", _TOKEN_VERB, True, "", "v1", namespace, audience, name)
        if not is_used and not self._authorizer.decide(attributes.user, right).allowed:
            why = (
                f'audience "{audience}" not found in pod spec volume, '
                f"{attributes.user.name} is not authorized to request tokens for this audience"
            )
            raise forbidden(accounts, name, why)

    def _check_new_pod(self, node: str, pods: Resource, name: str, pod: JsonObject) -> None:
        """Check a new pod: a node may create only mirror pods, which refer to no other objects."""
        metadata, spec = pod.get("metadata", {}), pod.get("spec", {})
        if MIRROR_POD not in metadata.get("annotations", {}):
            why = f'pod does not have "{MIRROR_POD}" annotation, node "{node}" can only create mirror pods'
            raise forbidden(pods, name, why)
        if spec.get("nodeName", "") != node:
            raise forbidden(pods, name, f'node "{node}" can only create pods with spec.nodeName set to itself')
        owners = metadata.get("ownerReferences", ())
        if len(owners) > 1:
            why = f'node "{node}" can only create pods with a single owner reference set to itself'
            raise forbidden(pods, name, why)
        owner = owners[0] if owners else {}
        if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
            raise forbidden(pods, name, f'node "{node}" can only create pods with an owner reference set to itself')
        if not owner.get("controller"):
            why = f'node "{node}" can only create pods with a controller owner reference set to itself'
            raise forbidden(pods, name, why)
        if owner.get("blockOwnerDeletion"):
            raise forbidden(pods, name, f'node "{node}" must not set blockOwnerDeletion on an owner reference')
        uid = self._uid_of_node(node)
        if owner.get("uid", "") != uid:
            why = f"node {node} UID mismatch: expected {owner.get('uid', '')} got {uid}"
            raise forbidden(pods, name, why)
        if spec.get("serviceAccountName") or spec.get("serviceAccount"):
            raise forbidden(pods, name, f'node "{node}" can not create pods that reference a service account')
        kinds = {kind for kind, _ in references(spec)}
        for kind in ("secret", "configmap"):
            if kind in kinds:
                raise forbidden(pods, name, f'node "{node}" can not create pods that reference {kind}s')
        if any("clusterTrustBundle" in source for source in _projected(pod)):
            raise forbidden(pods, name, f'node "{node}" can not create pods that reference clustertrustbundles')
        if spec.get("resourceClaims"):
            raise forbidden(pods, name, f'node "{node}" can not create pods that reference resourceclaims')
        if any("persistentVolumeClaim" in volume for volume in spec.get("volumes", ())):
            raise forbidden(pods, name, f'node "{node}" can not create pods that reference persistentvolumeclaims')

    def _read_pod(self, namespace: str, name: str) -> JsonObject:
        """Read a pod. Raises a 404."""
        record = self._store.get(Key("pods", namespace, name))
        if record is None:
            raise not_found_named("pods", "", name)
        pod: JsonObject = msgspec.json.decode(record.value)
        return pod

    def _node_of_pod(self, namespace: str, name: str) -> str:
        """Return the name of a pod's node. Raises a 404."""
        node: str = self._read_pod(namespace, name).get("spec", {}).get("nodeName", "")
        return node

    def _uid_of_node(self, name: str) -> str:
        """Return the uid of a Node. Raises a 404."""
        record = self._store.get(Key("nodes", "", name))
        if record is None:
            raise not_found_named("nodes", "", name)
        uid: str = msgspec.json.decode(record.value)["metadata"]["uid"]
        return uid


def _node_of(user: User, resource: Resource) -> str:
    """Return the node's name. Raises a 403 for a node without a name."""
    node = node_name_of(user)
    if not node:
        raise forbidden(resource, "", f'could not determine node from user "{user.name}"')
    return node


def _name(attributes: Attributes, obj: JsonObject, old: JsonObject) -> str:
    name: str = attributes.name or (obj or old).get("metadata", {}).get("name", "")
    return name


def _check_own_node(node: str, nodes: Resource, name: str) -> None:
    if name != node:
        raise forbidden(nodes, name, f'node "{node}" is not allowed to modify node "{name}"')


def _check_new_node(node: str, nodes: Resource, name: str, obj: JsonObject) -> None:
    _check_own_node(node, nodes, name)
    if obj.get("spec", {}).get("configSource") is not None:
        raise forbidden(nodes, name, f'node "{node}" is not allowed to create pods with a non-nil configSource')
    # Stricter than Kubernetes: a Node created with an owner could be garbage-collected and created anew, too.
    if obj["metadata"].get("ownerReferences"):
        raise forbidden(nodes, name, f'node "{node}" is not allowed to set ownerReferences')
    if restricted := find_restricted(obj["metadata"].get("labels", ())):
        why = f'node "{node}" is not allowed to set the following labels: {", ".join(restricted)}'
        raise forbidden(nodes, name, why)


def _check_changed_node(node: str, nodes: Resource, name: str, new: JsonObject, old: JsonObject) -> None:
    _check_own_node(node, nodes, name)
    spec, before = new.get("spec", {}), old.get("spec", {})
    if spec.get("configSource") is not None and spec["configSource"] != before.get("configSource"):
        raise forbidden(
            nodes, name, f'node "{node}" is not allowed to update configSource to a new non-nil configSource'
        )
    if (spec.get("taints") or []) != (before.get("taints") or []):
        raise forbidden(nodes, name, f'node "{node}" is not allowed to modify taints')
    # With an owner that does not exist, a node would have its Node deleted, and could then register with any labels and
    # taints (CVE-2025-5187).
    metadata, meta_before = new.get("metadata", {}), old["metadata"]
    if (metadata.get("ownerReferences") or []) != (meta_before.get("ownerReferences") or []):
        raise forbidden(nodes, name, f'node "{node}" is not allowed to modify ownerReferences')
    if restricted := find_restricted(_changed(_labels(new), _labels(old))):
        raise forbidden(nodes, name, f"is not allowed to modify labels: {', '.join(restricted)}")


def _check_pod_status(node: str, pods: Resource, name: str, new: JsonObject, old: JsonObject) -> None:
    """Check a change of a pod's status. `node_authorizer` refuses other changes of existing pods."""
    if old.get("spec", {}).get("nodeName", "") != node:
        why = f'node "{node}" can only update pod status for pods with spec.nodeName set to itself'
        raise forbidden(pods, name, why)
    if _labels(new) != _labels(old):
        raise forbidden(pods, name, f'node "{node}" cannot update labels through pod status')
    claims, before = (one.get("status", {}).get("resourceClaimStatuses") or [] for one in (new, old))
    if claims != before:
        raise forbidden(pods, name, f'node "{node}" cannot update resource claim statues')


def _check_lease(node: str, leases: Resource, namespace: str, name: str) -> None:
    if namespace != LEASE_NAMESPACE:
        why = f'can only access leases in the "{LEASE_NAMESPACE}" system namespace'
        raise forbidden(leases, name, why)
    if name != node:
        raise forbidden(leases, name, "can only access node lease with the same name as the requesting node")


def _check_slice(node: str, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
    """Check a new or deleted ResourceSlice. `node_authorizer` refuses changes of other nodes' slices."""
    if attributes.operation not in (CREATE, DELETE):
        return
    if (obj or old).get("spec", {}).get("nodeName", "") != node:
        verb = attributes.operation.lower()
        why = f"can only {verb} ResourceSlice with the same NodeName as the requesting node"
        raise forbidden(attributes.resource, _name(attributes, obj, old), why)


def _check_claim_status(node: str, claims: Resource, name: str, new: JsonObject, old: JsonObject) -> None:
    if _without_resizing(new) != _without_resizing(old):
        why = f'node "{node}" is not allowed to update fields other than status.quantity and status.conditions'
        raise forbidden(claims, name, why)


def _without_resizing(claim: JsonObject) -> JsonObject:
    """Return a claim without what a node may change, and without what each update changes."""
    metadata = {key: value for key, value in claim["metadata"].items() if key not in _OF_WRITES}
    status = {key: value for key, value in claim.get("status", {}).items() if key not in _RESIZING}
    return {**claim, "metadata": metadata, "status": status}


def _check_certificate(attributes: Attributes, obj: JsonObject) -> None:
    """Check a request for a certificate: a node gets those of nodes for itself only."""
    spec, user = obj.get("spec", {}), attributes.user
    if spec.get("signerName") not in _NODE_SIGNERS:
        return
    try:
        name = common_name_of(spec.get("request", ""))
    except ValueError as error:
        raise forbidden(attributes.resource, shown_name(obj), f"unable to parse csr: {error}") from None
    if name != user.name:
        raise forbidden(attributes.resource, shown_name(obj), f"can only create a node CSR with CN={user.name}")


def _labels(obj: JsonObject) -> dict[str, str]:
    labels: dict[str, str] = obj.get("metadata", {}).get("labels") or {}
    return labels


def _changed(new: dict[str, str], old: dict[str, str]) -> set[str]:
    """Return the keys whose values differ."""
    return {key for key in new.keys() | old.keys() if new.get(key) != old.get(key)}


def _projected(pod: JsonObject) -> Iterator[JsonObject]:
    """Yield the sources of the pod's projected volumes."""
    for volume in pod.get("spec", {}).get("volumes", ()):
        yield from volume.get("projected", {}).get("sources") or ()

"""Short notation for the default roles and bindings. Items of a text are separated by spaces.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.rbac.rules import GROUP

AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"
AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
BOOTSTRAPPING = {"kubernetes.io/bootstrapping": "rbac-defaults"}

READ = "get list watch"
WRITE = "create delete deletecollection patch update"
READ_WRITE = "create delete deletecollection get list patch update watch"
READ_UPDATE = "get list patch update watch"

_SYSTEM = "kube-system"


def allow(verbs: str, resources: str, groups: str = "core", names: str = "") -> JsonObject:
    """Return a rule for resources; the group `core` is ""."""
    rule: JsonObject = {"apiGroups": ["" if group == "core" else group for group in groups.split()]}
    if names:
        rule["resourceNames"] = names.split()
    return rule | {"resources": resources.split(), "verbs": verbs.split()}


def allow_urls(verbs: str, urls: str) -> JsonObject:
    return {"nonResourceURLs": urls.split(), "verbs": verbs.split()}


def events() -> JsonObject:
    """Return the rule of everything that records Events."""
    return allow("create patch update", "events", "core events.k8s.io")


def cluster_role(name: str, *rules: JsonObject, labels: dict[str, str] = BOOTSTRAPPING, to: str = "") -> JsonObject:
    """Return a ClusterRole. `to`: the role (`edit`) that gathers its rules."""
    labels = labels | ({AGGREGATE + to: "true"} if to else {})
    return _object("ClusterRole", name, "", labels) | {"rules": list(rules)}


def aggregated_role(name: str, *, to: str = "") -> JsonObject:
    """Return a ClusterRole that gathers the rules of all ClusterRoles with its label."""
    selector = {"matchLabels": {AGGREGATE + name: "true"}}
    role = cluster_role(name, to=to) | {"aggregationRule": {"clusterRoleSelectors": [selector]}}
    del role["rules"]
    return role


def role(namespace: str, name: str, *rules: JsonObject, labels: dict[str, str] = BOOTSTRAPPING) -> JsonObject:
    return _object("Role", name, namespace, labels) | {"rules": list(rules)}


def bind(
    role: JsonObject | str,
    *subjects: JsonObject,
    name: str = "",
    namespace: str = "",
    labels: dict[str, str] = BOOTSTRAPPING,
) -> JsonObject:
    """Return a binding, by default with the name of its role; without `namespace`, a ClusterRoleBinding.

    `role` is a Role, or the name of a ClusterRole.
    """
    kind, role_name = ("ClusterRole", role) if isinstance(role, str) else (role["kind"], role["metadata"]["name"])
    binding = _object("RoleBinding" if namespace else "ClusterRoleBinding", name or role_name, namespace, labels)
    binding["roleRef"] = {"apiGroup": GROUP, "kind": kind, "name": role_name}
    if subjects:
        binding["subjects"] = list(subjects)
    return binding


def user(name: str) -> JsonObject:
    return {"apiGroup": GROUP, "kind": "User", "name": name}


def group(name: str) -> JsonObject:
    return {"apiGroup": GROUP, "kind": "Group", "name": name}


def account(name: str) -> JsonObject:
    """Return a service account of kube-system."""
    return {"kind": "ServiceAccount", "name": name, "namespace": _SYSTEM}


def _object(kind: str, name: str, namespace: str, labels: dict[str, str]) -> JsonObject:
    metadata: JsonObject = {"name": name, "labels": dict(labels), "annotations": {AUTO_UPDATE: "true"}}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata}

"""The specs of the suggested FlowSchemas and PriorityLevelConfigurations, with all defaults, by name.

Every cluster has them when it is new, and its administrators may change them.
Pure: no I/O, no clock, no randomness. Source: Kubernetes "API Priority and Fairness", flowcontrol/bootstrap/default.go.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject

_SYSTEM = "kube-system"
_CONTROLLER_MANAGER, _SCHEDULER = "system:kube-controller-manager", "system:kube-scheduler"
_EVERYBODY = ("system:unauthenticated", "system:authenticated")
_BY_USER, _BY_NAMESPACE = "ByUser", "ByNamespace"
_LEADER_VERBS = ("get", "create", "update")


def _groups(*names: str) -> list[JsonObject]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


def _users(*names: str) -> list[JsonObject]:
    return [{"kind": "User", "user": {"name": name}} for name in names]


def _system_accounts(*names: str) -> list[JsonObject]:
    accounts = ({"name": name, "namespace": _SYSTEM} for name in names)
    return [{"kind": "ServiceAccount", "serviceAccount": account} for account in accounts]


def _on(
    verbs: tuple[str, ...], group: str, *resources: str, namespace: str = "*", is_cluster_scoped: bool = False
) -> JsonObject:
    rule = {"verbs": [*verbs], "apiGroups": [group], "resources": [*resources], "namespaces": [namespace]}
    return rule | ({"clusterScope": True} if is_cluster_scoped else {})


def _schema(
    level: str, precedence: int, method: str, subjects: list[JsonObject], **rules: list[JsonObject]
) -> JsonObject:
    """Return a spec. Without `rules` it means everything that the subjects do."""
    if not rules:
        everything = _on(("*",), "*", "*", is_cluster_scoped=True)
        rules = {"resourceRules": [everything], "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}
    spec: JsonObject = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [{"subjects": subjects, **rules}],
    }
    return spec | ({"distinguisherMethod": {"type": method}} if method else {})


def _level(shares: int, lendable: int, queues: int, hand: int) -> JsonObject:
    queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": 50}
    return {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": shares,
            "lendablePercent": lendable,
            "limitResponse": {"type": "Queue", "queuing": queuing},
        },
    }


_LEASES = _on(_LEADER_VERBS, "coordination.k8s.io", "leases")

SUGGESTED_FLOW_SCHEMA_SPECS: dict[str, JsonObject] = {
    "probes": _schema(
        "exempt",
        2,
        "",
        _groups(*_EVERYBODY),
        nonResourceRules=[{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}],
    ),
    "system-leader-election": _schema(
        "leader-election",
        100,
        _BY_USER,
        [*_users(_CONTROLLER_MANAGER, _SCHEDULER), *_system_accounts("*")],
        resourceRules=[_LEASES],
    ),
    "endpoint-controller": _schema(
        "workload-high",
        150,
        _BY_USER,
        [*_users(_CONTROLLER_MANAGER), *_system_accounts("endpoint-controller", "endpointslicemirroring-controller")],
        resourceRules=[_on(_LEADER_VERBS, "", "endpoints")],
    ),
    "workload-leader-election": _schema(
        "leader-election", 200, _BY_USER, _system_accounts("*"), resourceRules=[_LEASES]
    ),
    "system-node-high": _schema(
        "node-high",
        400,
        _BY_USER,
        _groups("system:nodes"),
        resourceRules=[
            _on(("*",), "", "nodes", "nodes/status", is_cluster_scoped=True),
            _on(("*",), "coordination.k8s.io", "leases"),
        ],
    ),
    "system-nodes": _schema("system", 500, _BY_USER, _groups("system:nodes")),
    "kube-controller-manager": _schema("workload-high", 800, _BY_NAMESPACE, _users(_CONTROLLER_MANAGER)),
    "kube-scheduler": _schema("workload-high", 800, _BY_NAMESPACE, _users(_SCHEDULER)),
    "kube-system-service-accounts": _schema("workload-high", 900, _BY_NAMESPACE, _system_accounts("*")),
    "service-accounts": _schema("workload-low", 9000, _BY_USER, _groups("system:serviceaccounts")),
    "global-default": _schema("global-default", 9900, _BY_USER, _groups(*_EVERYBODY)),
}
SUGGESTED_PRIORITY_LEVEL_SPECS: dict[str, JsonObject] = {
    "system": _level(30, 33, 64, 6),
    "node-high": _level(40, 25, 64, 6),
    "leader-election": _level(10, 0, 16, 4),
    "workload-high": _level(40, 50, 128, 6),
    "workload-low": _level(100, 90, 128, 6),
    "global-default": _level(20, 50, 128, 6),
}

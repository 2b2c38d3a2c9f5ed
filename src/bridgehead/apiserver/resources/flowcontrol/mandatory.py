"""The specs of the mandatory FlowSchemas and PriorityLevelConfigurations, with all defaults, by name.

Pure: no I/O, no clock, no randomness. Source: Kubernetes "API Priority and Fairness", flowcontrol/bootstrap/default.go.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject


def _everything_of(*groups: str) -> list[JsonObject]:
    everywhere = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    return [
        {
            "subjects": [{"kind": "Group", "group": {"name": group}} for group in groups],
            "resourceRules": [everywhere],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }
    ]


FLOW_SCHEMA_SPECS: dict[str, JsonObject] = {
    "exempt": {
        "priorityLevelConfiguration": {"name": "exempt"},
        "matchingPrecedence": 1,
        "rules": _everything_of("system:masters"),
    },
    "catch-all": {
        "priorityLevelConfiguration": {"name": "catch-all"},
        "matchingPrecedence": 10000,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": _everything_of("system:unauthenticated", "system:authenticated"),
    },
}
PRIORITY_LEVEL_SPECS: dict[str, JsonObject] = {
    "exempt": {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    "catch-all": {
        "type": "Limited",
        "limited": {"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}},
    },
}

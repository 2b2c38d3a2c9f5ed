"""FlowSchemas: which one a request belongs to, and its flow.

The first schema that matches classifies a request: that with the lowest precedence, then by name.
Pure: no I/O, no clock, no randomness. Source: apiserver/pkg/util/flowcontrol/rule.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.resource import JsonObject

_ANY = "*"
_SERVICE_ACCOUNT = "system:serviceaccount"

# Whether a user, or a request, is meant.
_OfUser = Callable[[User], bool]
_OfRequest = Callable[[RequestInfo], bool]


@dataclass(frozen=True, slots=True)
class FlowSchema:
    """A compiled FlowSchema. `distinguisher` is ByUser, ByNamespace or ""; `level` a PriorityLevelConfiguration."""

    name: str
    uid: str
    level: str
    precedence: int
    distinguisher: str
    rules: tuple[tuple[tuple[_OfUser, ...], tuple[_OfRequest, ...]], ...]

    def matches(self, user: User, info: RequestInfo) -> bool:
        return any(
            any(is_meant(user) for is_meant in subjects) and any(is_meant(info) for is_meant in requests)
            for subjects, requests in self.rules
        )

    def flow(self, user: User, info: RequestInfo) -> str:
        """Return the flow of a request within the schema."""
        if self.distinguisher == "ByUser":
            return user.name
        return info.namespace if self.distinguisher == "ByNamespace" else ""


def compile_schema(obj: JsonObject) -> FlowSchema:
    """Compile a FlowSchema, which is valid and has its default values."""
    metadata, spec = obj["metadata"], obj["spec"]
    rules = []
    for rule in spec.get("rules", ()):
        resources = (_compile_resource_rule(one) for one in rule.get("resourceRules", ()))
        paths = (_compile_path_rule(one) for one in rule.get("nonResourceRules", ()))
        rules.append((tuple(map(_compile_subject, rule.get("subjects") or ())), (*resources, *paths)))
    return FlowSchema(
        metadata["name"],
        metadata.get("uid", ""),
        spec["priorityLevelConfiguration"]["name"],
        spec["matchingPrecedence"],
        spec.get("distinguisherMethod", {}).get("type", ""),
        tuple(rules),
    )


def in_order(schemas: Sequence[FlowSchema]) -> list[FlowSchema]:
    return sorted(schemas, key=lambda schema: (schema.precedence, schema.name))


def _compile_subject(subject: JsonObject) -> _OfUser:
    match subject["kind"]:
        case "User":
            name = subject["user"]["name"]
            return lambda user: name in (_ANY, user.name)
        case "Group":
            group = subject["group"]["name"]
            return lambda user: group == _ANY or group in user.groups
        case _:
            account, namespace = subject["serviceAccount"]["name"], subject["serviceAccount"]["namespace"]
            prefix = f"{_SERVICE_ACCOUNT}:{namespace}:"
            if account == _ANY:
                return lambda user: user.name.startswith(prefix)
            return lambda user: user.name == prefix + account


def _compile_resource_rule(rule: JsonObject) -> _OfRequest:
    verbs, groups, resources = rule["verbs"], rule["apiGroups"], rule["resources"]
    of_cluster, namespaces = rule.get("clusterScope", False), rule.get("namespaces") or ()

    def is_meant(info: RequestInfo) -> bool:
        if not info.is_resource or not (_has(verbs, info.verb) and _has(groups, info.group)):
            return False
        if not _has(resources, info.rule_resource):
            return False
        return _has(namespaces, info.namespace) if info.namespace else bool(of_cluster)

    return is_meant


def _compile_path_rule(rule: JsonObject) -> _OfRequest:
    verbs, urls = rule["verbs"], rule["nonResourceURLs"]
    prefixes = tuple(url[:-1] for url in urls if url.endswith(_ANY))

    def is_meant(info: RequestInfo) -> bool:
        if info.is_resource or not _has(verbs, info.verb):
            return False
        return info.path in urls or info.path.startswith(prefixes)

    return is_meant


def _has(values: Sequence[str], value: str) -> bool:
    return value in values or _ANY in values

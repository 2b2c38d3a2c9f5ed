"""Rules of webhooks and policies: the requests that they are for (`RuleWithOperations`).

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/admissionregistration/validation`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")


def default_rules(rules: Sequence[JsonObject]) -> None:
    """Set the default values of rules in place."""
    for rule in rules:
        rule.setdefault("scope", "*")


def validate_rule_with_operations(rule: Field) -> None:
    operations, versions = rule.at("operations"), rule.at("apiVersions")
    _validate_wildcard(operations, "operations")
    operations.must_all_be_one_of(_OPERATIONS)
    _validate_wildcard(rule.at("apiGroups"), "API groups")
    _validate_wildcard(versions, "API versions")
    for version in versions.each():
        version.must_be_set()
    _validate_resources(rule.at("resources"))
    rule.at("scope").must_be_one_of(_SCOPES)


def _validate_wildcard(values: Field, what: str) -> None:
    if values.must_be_set() and len(values.value) > 1 and "*" in values.value:
        values.invalid(f"if '*' is present, must not specify other {what}")


def _validate_resources(resources: Field) -> None:
    if not resources.must_be_set():
        return
    all_subresources_of: set[str] = set()
    of_all_resources: set[str] = set()
    has_plain = False
    for given in resources.each():
        if not given.must_be_set():
            continue
        resource, slash, subresource = given.value.partition("/")
        if not slash:
            has_plain = given.value != "*"
            continue
        if resource in all_subresources_of:
            given.invalid(f"if '{resource}/*' is present, must not specify {given.value}")
        if subresource in of_all_resources:
            given.invalid(f"if '*/{subresource}' is present, must not specify {given.value}")
        if subresource == "*":
            all_subresources_of.add(resource)
        if resource == "*":
            of_all_resources.add(subresource)
    if len(resources.value) > 1 and "*/*" in resources.value:
        resources.invalid("if '*/*' is present, must not specify other resources")
    if "*" in resources.value and has_plain:
        resources.invalid("if '*' is present, must not specify other resources without subresources")

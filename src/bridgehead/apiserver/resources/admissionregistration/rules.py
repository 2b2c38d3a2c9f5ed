"""Rules of webhooks and policies: the requests that they are for (`RuleWithOperations`).

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/admissionregistration/validation`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")


def default_rules(rules: Sequence[JsonObject]) -> None:
    """Set the default values of rules in place."""
    for rule in rules:
        rule.setdefault("scope", "*")


def validate_rule_with_operations(path: str, rule: JsonObject) -> list[FieldError]:
    operations, item = rule.get("operations") or [], f"{path}.operations"
    errors = _validate_list(item, operations, "operations")
    errors += [
        field.not_supported(f"{item}[{index}]", operation, _OPERATIONS)
        for index, operation in enumerate(operations)
        if operation not in _OPERATIONS
    ]
    errors += _validate_list(f"{path}.apiGroups", rule.get("apiGroups") or [], "API groups")
    versions, item = rule.get("apiVersions") or [], f"{path}.apiVersions"
    errors += _validate_list(item, versions, "API versions")
    errors += [field.required(f"{item}[{index}]") for index, version in enumerate(versions) if not version]
    errors += _validate_resources(f"{path}.resources", rule.get("resources") or [])
    if "scope" in rule:
        errors += field.one_of(f"{path}.scope", rule["scope"], _SCOPES)
    return errors


def _validate_list(path: str, values: Sequence[str], what: str) -> list[FieldError]:
    if not values:
        return [field.required(path)]
    if len(values) > 1 and "*" in values:
        return [field.invalid(path, values, f"if '*' is present, must not specify other {what}")]
    return []


def _validate_resources(path: str, resources: Sequence[str]) -> list[FieldError]:
    errors = [] if resources else [field.required(path)]
    all_subresources_of: set[str] = set()
    of_all_resources: set[str] = set()
    has_plain = False
    for index, given in enumerate(resources):
        if not given:
            errors.append(field.required(f"{path}[{index}]"))
            continue
        resource, slash, subresource = given.partition("/")
        if not slash:
            has_plain = given != "*"
            continue
        if resource in all_subresources_of:
            why = f"if '{resource}/*' is present, must not specify {given}"
            errors.append(field.invalid(f"{path}[{index}]", given, why))
        if subresource in of_all_resources:
            why = f"if '*/{subresource}' is present, must not specify {given}"
            errors.append(field.invalid(f"{path}[{index}]", given, why))
        if subresource == "*":
            all_subresources_of.add(resource)
        if resource == "*":
            of_all_resources.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(field.invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and has_plain:
        why = "if '*' is present, must not specify other resources without subresources"
        errors.append(field.invalid(path, resources, why))
    return errors

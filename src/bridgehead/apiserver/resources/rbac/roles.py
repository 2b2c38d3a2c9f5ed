"""Role and ClusterRole (rbac.authorization.k8s.io/v1): entries in the table, validation.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateRole`, `ValidateClusterRole`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import NAME, at
from bridgehead.apiserver.resources.shared.metadata_validation import validate_label_selector
from bridgehead.objects.names import check_path_segment

from .rules import GROUP


class RoleStrategy(Strategy):
    """Validation of a role. Rules of a ClusterRole (`is_namespaced` False) may apply to URLs."""

    def __init__(self, *, is_namespaced: bool) -> None:
        self._is_namespaced = is_namespaced

    def validate(self, obj: JsonObject) -> list[FieldError]:
        errors: list[FieldError] = []
        for index, rule in enumerate(obj.get("rules", ())):
            errors += _validate_rule(f"rules[{index}]", rule, is_namespaced=self._is_namespaced)
        if not self._is_namespaced and "aggregationRule" in obj:
            errors += _validate_aggregation(obj["aggregationRule"])
        return errors


def _validate_rule(path: str, rule: JsonObject, *, is_namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if not rule.get("verbs"):
        errors.append(field.required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        where = f"{path}.nonResourceURLs"
        if is_namespaced:
            errors.append(field.invalid(where, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(field.invalid(where, urls, why))
        return errors
    if not rule.get("apiGroups"):
        errors.append(field.required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(field.required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


def _validate_aggregation(rule: JsonObject) -> list[FieldError]:
    path = "aggregationRule.clusterRoleSelectors"
    selectors = rule.get("clusterRoleSelectors")
    if not selectors:
        return [field.required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")]
    errors: list[FieldError] = []
    for index, selector in enumerate(selectors):
        problems = field.errors_below(f"{path}[{index}]", validate_label_selector, selector)
        errors += problems
        if problems:  # an error without the selector's value
            errors.append(field.invalid(f"{path}[{index}]", None, "invalid label selector."))
    return errors


# Roles have no columns of their own in Kubernetes: these are those of any resource without.
_COLUMNS = (NAME, Column("Created At", lambda obj, now: at(obj, "metadata", "creationTimestamp") or "", type="date"))

ROLES = Resource(
    group=GROUP,
    version="v1",
    kind="Role",
    plural="roles",
    singular="role",
    namespaced=True,
    strategy=RoleStrategy(is_namespaced=True),
    columns=_COLUMNS,
    is_created_by_update=True,
    check_name=check_path_segment,
)

CLUSTER_ROLES = Resource(
    group=GROUP,
    version="v1",
    kind="ClusterRole",
    plural="clusterroles",
    singular="clusterrole",
    namespaced=False,
    strategy=RoleStrategy(is_namespaced=False),
    columns=_COLUMNS,
    is_created_by_update=True,
    check_name=check_path_segment,
)

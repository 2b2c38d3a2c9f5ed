"""Role and ClusterRole (rbac.authorization.k8s.io/v1): entries in the table, validation.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateRole`, `ValidateClusterRole`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, Resource, Strategy
from bridgehead.apiserver.resources.shared.columns import NAME, at
from bridgehead.apiserver.resources.shared.metadata_validation import validate_label_selector
from bridgehead.objects.names import check_path_segment

from .rules import GROUP


class RoleStrategy(Strategy):
    """Validation of a role. Rules of a ClusterRole (`is_namespaced` False) may apply to URLs."""

    def __init__(self, *, is_namespaced: bool) -> None:
        self._is_namespaced = is_namespaced

    def validate(self, obj: Field) -> None:
        for rule in obj.at("rules").each():
            _validate_rule(rule, is_namespaced=self._is_namespaced)
        if not self._is_namespaced and "aggregationRule" in obj.value:
            _validate_aggregation(obj.at("aggregationRule"))


def _validate_rule(rule: Field, *, is_namespaced: bool) -> None:
    rule.at("verbs").must_be_set("verbs must contain at least one value")
    groups, resources, urls = rule.at("apiGroups"), rule.at("resources"), rule.at("nonResourceURLs")
    if urls:
        if is_namespaced:
            urls.invalid("namespaced rules cannot apply to non-resource URLs")
        if groups or resources or rule.get("resourceNames"):
            urls.invalid("rules cannot apply to both regular resources and non-resource URLs")
    else:
        groups.must_be_set("resource rules must supply at least one api group")
        resources.must_be_set("resource rules must supply at least one resource")


def _validate_aggregation(rule: Field) -> None:
    selectors = rule.at("clusterRoleSelectors")
    selectors.must_be_set("at least one clusterRoleSelector required if aggregationRule is non-nil")
    for selector in selectors.each():
        if not selector.must_obey(validate_label_selector):
            selector.showing(None).invalid("invalid label selector.")  # Kubernetes does not show the selector


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

"""RoleBinding and ClusterRoleBinding (rbac.authorization.k8s.io/v1): entries in the table, defaults, validation.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateRoleBinding`, `ValidateClusterRoleBinding`,
pkg/apis/rbac/v1/defaults.go, pkg/printers/internalversion.
"""

from __future__ import annotations

from collections.abc import Callable

from bridgehead.apiserver.field import Field, internal_value
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared.columns import AGE, NAME
from bridgehead.objects.names import check_dns1123_subdomain, check_path_segment

from .rules import GROUP

_SUBJECTS = ("ServiceAccount", "User", "Group")
# The fields of a reference in Kubernetes' internal type, which errors show.
_REFERENCE = {"apiGroup": "", "kind": "", "name": ""}


class BindingStrategy(Strategy):
    """Defaults and validation of a binding. A ClusterRoleBinding (`is_namespaced` False) refers to ClusterRoles."""

    def __init__(self, *, is_namespaced: bool) -> None:
        self._is_namespaced = is_namespaced
        self._role_kinds = ("Role", "ClusterRole") if is_namespaced else ("ClusterRole",)

    def default(self, obj: JsonObject) -> None:
        reference = obj.setdefault("roleRef", {})
        if not reference.get("apiGroup"):
            reference["apiGroup"] = GROUP
        for subject in obj.get("subjects", ()):
            if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
                subject["apiGroup"] = GROUP

    def validate(self, obj: Field) -> None:
        reference = obj.at("roleRef")
        reference.at("apiGroup", "").must_be_one_of((GROUP,))
        reference.at("kind", "").must_be_one_of(self._role_kinds)
        reference.at("name").must_be_set_and_pass(check_path_segment)
        for subject in obj.at("subjects").each():
            self._validate_subject(subject)

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        reference = obj.at("roleRef").showing(internal_value(obj.get("roleRef"), _REFERENCE))
        reference.must_not_change(internal_value(old["roleRef"], _REFERENCE), "cannot change roleRef")

    def _validate_subject(self, subject: Field) -> None:
        kind, name, group = (subject.at(key, "") for key in ("kind", "name", "apiGroup"))
        name.must_be_set()
        match kind.value:
            case "ServiceAccount":
                if name:
                    name.must_pass(check_dns1123_subdomain)
                group.must_be_one_of(("",))
                if not self._is_namespaced:
                    subject.at("namespace").must_be_set()
            case "User" | "Group":
                if not name:
                    name.invalid(f"{kind.value.lower()} name cannot be empty")
                group.must_be_one_of((GROUP,))
            case _:
                kind.not_supported(_SUBJECTS)


def _role_cell(binding: JsonObject, now: float) -> str:
    reference = binding.get("roleRef", {})
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _subjects_column(title: str, kind: str) -> Column:
    """Return the wide column with the names of a binding's subjects of one kind."""

    def cell(binding: JsonObject, now: float) -> str:
        return ", ".join(show(one) for one in binding.get("subjects", ()) if one.get("kind") == kind)

    show: Callable[[JsonObject], str] = _account if kind == "ServiceAccount" else _name
    return Column(title, cell, priority=1)


def _name(subject: JsonObject) -> str:
    return str(subject.get("name", ""))


def _account(subject: JsonObject) -> str:
    return f"{subject.get('namespace', '')}/{subject.get('name', '')}"


_COLUMNS = (
    NAME,
    Column("Role", _role_cell),
    AGE,
    _subjects_column("Users", "User"),
    _subjects_column("Groups", "Group"),
    _subjects_column("ServiceAccounts", "ServiceAccount"),
)

ROLE_BINDINGS = Resource(
    group=GROUP,
    version="v1",
    kind="RoleBinding",
    plural="rolebindings",
    singular="rolebinding",
    namespaced=True,
    strategy=BindingStrategy(is_namespaced=True),
    columns=_COLUMNS,
    is_created_by_update=True,
    check_name=check_path_segment,
)

CLUSTER_ROLE_BINDINGS = Resource(
    group=GROUP,
    version="v1",
    kind="ClusterRoleBinding",
    plural="clusterrolebindings",
    singular="clusterrolebinding",
    namespaced=False,
    strategy=BindingStrategy(is_namespaced=False),
    columns=_COLUMNS,
    is_created_by_update=True,
    check_name=check_path_segment,
)

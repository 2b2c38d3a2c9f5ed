"""RoleBinding and ClusterRoleBinding (rbac.authorization.k8s.io/v1): entries in the table, defaults, validation.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateRoleBinding`, `ValidateClusterRoleBinding`,
pkg/apis/rbac/v1/defaults.go, pkg/printers/internalversion.
"""

from __future__ import annotations

from collections.abc import Callable

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME
from bridgehead.objects.names import check_dns1123_subdomain, check_path_segment

from .rules import GROUP

_SUBJECTS = ("ServiceAccount", "User", "Group")
_REFERENCE = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))


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

    def validate(self, obj: JsonObject) -> list[FieldError]:
        reference = obj.get("roleRef", {})
        errors = field.one_of("roleRef.apiGroup", reference.get("apiGroup", ""), (GROUP,))
        errors += field.one_of("roleRef.kind", reference.get("kind", ""), self._role_kinds)
        errors += field.required_valid("roleRef.name", reference.get("name", ""), check_path_segment)
        for index, subject in enumerate(obj.get("subjects", ())):
            errors += self._validate_subject(f"subjects[{index}]", subject)
        return errors

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        new, before = ([one["roleRef"].get(key, "") for _, key in _REFERENCE] for one in (obj, old))
        if new == before:
            return []
        value = {name: obj["roleRef"].get(key, "") for name, key in _REFERENCE}
        return [field.invalid("roleRef", value, "cannot change roleRef")]

    def _validate_subject(self, path: str, subject: JsonObject) -> list[FieldError]:
        kind, name, group = (subject.get(key, "") for key in ("kind", "name", "apiGroup"))
        errors = [] if name else [field.required(f"{path}.name")]
        match kind:
            case "ServiceAccount":
                if name:
                    errors += field.invalid_for(f"{path}.name", name, check_dns1123_subdomain(name))
                errors += field.one_of(f"{path}.apiGroup", group, ("",))
                if not self._is_namespaced and not subject.get("namespace"):
                    errors.append(field.required(f"{path}.namespace"))
            case "User" | "Group":
                if not name:
                    errors.append(field.invalid(f"{path}.name", name, f"{kind.lower()} name cannot be empty"))
                errors += field.one_of(f"{path}.apiGroup", group, (GROUP,))
            case _:
                errors += field.one_of(f"{path}.kind", kind, _SUBJECTS)
        return errors


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

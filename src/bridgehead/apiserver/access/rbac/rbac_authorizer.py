"""Roles and bindings, and the decisions that follow from them.

Bindings are kept by subject, so that a decision looks only at the bindings of its user; the rules of a role are kept by
resource, and are decoded when a decision needs them first.
Pure: no I/O, no clock, no randomness. Source: Kubernetes plugin/pkg/auth/authorizer/rbac,
pkg/registry/rbac/validation/rule.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from bridgehead.apiserver.errors import not_found_named
from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.resources.rbac import GROUP, Rule

# Limit of the errors in one decision, as a user may have thousands of bindings to roles that do not exist.
_MAX_ERRORS = 10
_ACCOUNT_PREFIX = "system:serviceaccount:"


class Decision(NamedTuple):
    """A decision. `reason` is "" when it is only that no rule allows the request."""

    allowed: bool
    reason: str = ""


class Resolved(NamedTuple):
    """The rules of a user in one namespace. `errors` are of bindings whose role does not exist."""

    rules: list[Rule]
    errors: list[str]


class _RoleObject(msgspec.Struct):
    """The rules of a role. The decoder skips its other fields."""

    rules: tuple[Rule, ...] | None = None


class _RoleRef(msgspec.Struct, gc=False):
    kind: str = ""
    name: str = ""


class _Subject(msgspec.Struct, frozen=True, gc=False):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class _BindingObject(msgspec.Struct, rename="camel"):
    role_ref: _RoleRef
    subjects: tuple[_Subject, ...] | None = None


_decode_role = msgspec.json.Decoder(_RoleObject).decode
_decode_binding = msgspec.json.Decoder(_BindingObject).decode


class _Role:
    """A role, whose rules are decoded when they are used first."""

    __slots__ = ("_by_resource", "_rules", "_value", "_with_urls")

    def __init__(self, value: bytes) -> None:
        self._value = value
        self._rules: tuple[Rule, ...] | None = None
        self._by_resource: dict[str, list[Rule]] = {}
        self._with_urls: list[Rule] = []

    @property
    def rules(self) -> tuple[Rule, ...]:
        if self._rules is None:
            self._rules = _decode_role(self._value).rules or ()
            self._value = b""
            for rule in self._rules:
                for resource in dict.fromkeys(rule.resources):
                    self._by_resource.setdefault(resource, []).append(rule)
                if rule.urls:
                    self._with_urls.append(rule)
        return self._rules

    def allows(self, request: RequestInfo) -> bool:
        if not self.rules:
            return False
        if not request.is_resource:
            return any(rule.allows_path(request.verb, request.path) for rule in self._with_urls)
        verb, group, name = request.verb, request.group, request.name
        resource, subresource = request.resource, request.subresource
        keys = (f"{resource}/{subresource}", f"*/{subresource}", "*") if subresource else (resource, "*")
        for key in keys:
            for rule in self._by_resource.get(key, ()):
                if rule.allows(verb, group, resource, subresource, name):
                    return True
        return False


class _Grant:
    """A binding's role for one of its subjects. `namespace` is that of the binding, "" of a ClusterRoleBinding."""

    __slots__ = ("binding", "namespace", "role_kind", "role_name", "subject")

    def __init__(self, namespace: str, binding: str, role: _RoleRef, subject: _Subject) -> None:
        self.namespace = namespace
        self.binding = binding
        self.role_kind = role.kind
        self.role_name = role.name
        self.subject = subject

    def describe(self) -> str:
        """Return the text of an allowed decision's reason."""
        kind, name = (
            ("RoleBinding", f"{self.binding}/{self.namespace}")
            if self.namespace
            else ("ClusterRoleBinding", self.binding)
        )
        subject = self.subject.name
        if self.subject.kind == "ServiceAccount":
            subject += f"/{self.subject.namespace or self.namespace}"
        return (
            f"RBAC: allowed by {kind} {_quote(name)} of {self.role_kind} {_quote(self.role_name)}"
            f" to {self.subject.kind} {_quote(subject)}"
        )


# A subject in a namespace: (namespace of the binding or "", "User" or "Group", name). A service account is its user.
_SubjectKey = tuple[str, str, str]


class Policy:
    """Roles and bindings. Objects without namespace are ClusterRoles and ClusterRoleBindings."""

    def __init__(self) -> None:
        self._roles: dict[tuple[str, str], _Role] = {}
        self._grants: dict[_SubjectKey, dict[str, _Grant]] = {}
        self._subjects: dict[tuple[str, str], tuple[_SubjectKey, ...]] = {}

    def put_role(self, namespace: str, name: str, value: bytes) -> None:
        """Add or replace a role; `value` is its JSON."""
        self._roles[namespace, name] = _Role(value)

    def remove_role(self, namespace: str, name: str) -> None:
        self._roles.pop((namespace, name), None)

    def put_binding(self, namespace: str, name: str, value: bytes) -> None:
        """Add or replace a binding; `value` is its JSON."""
        self.remove_binding(namespace, name)
        binding = _decode_binding(value)
        keys: dict[_SubjectKey, None] = {}
        for subject in binding.subjects or ():
            key = _key_of(subject, namespace)
            if key is not None and key not in keys:
                keys[key] = None
                self._grants.setdefault(key, {})[name] = _Grant(namespace, name, binding.role_ref, subject)
        if keys:
            self._subjects[namespace, name] = tuple(keys)

    def remove_binding(self, namespace: str, name: str) -> None:
        for key in self._subjects.pop((namespace, name), ()):
            grants = self._grants[key]
            del grants[name]
            if not grants:
                del self._grants[key]

    def decide(self, user: User, request: RequestInfo) -> Decision:
        """Decide about a request. The reason of a refusal names roles that do not exist."""
        missing: list[str] | None = None
        for grant in self._grants_of(user, request.namespace):
            role = self._role_of(grant)
            if role is None:
                missing = missing or []
                missing.append(_missing_role(grant))
            elif role.allows(request):
                return Decision(True, grant.describe())
        return Decision(False, "" if missing is None else f"RBAC: {_join(missing)}")

    def rules_of(self, user: User, namespace: str) -> Resolved:
        """Return all rules of a user in a namespace; "": those that apply to the whole cluster."""
        rules: list[Rule] = []
        errors: list[str] = []
        for grant in self._grants_of(user, namespace):
            role = self._role_of(grant)
            if role is None:
                errors.append(_missing_role(grant))
            else:
                rules += role.rules
        return Resolved(rules, errors)

    def rules_of_role(self, kind: str, namespace: str, name: str) -> Sequence[Rule]:
        """Return the rules of the role to which a binding in `namespace` refers. Raises a 404."""
        role = self._roles.get((namespace if kind == "Role" else "", name))
        if role is None:
            raise not_found_named(f"{kind.lower()}s", GROUP, name)
        return role.rules

    def _grants_of(self, user: User, namespace: str) -> Iterator[_Grant]:
        grants = self._grants
        for scope in ("", namespace) if namespace else ("",):
            found = grants.get((scope, "User", user.name))
            if found:
                yield from found.values()
            for group in user.groups:
                found = grants.get((scope, "Group", group))
                if found:
                    yield from found.values()

    def _role_of(self, grant: _Grant) -> _Role | None:
        return self._roles.get((grant.namespace if grant.role_kind == "Role" else "", grant.role_name))


def _key_of(subject: _Subject, namespace: str) -> _SubjectKey | None:
    """Return the key of a binding's subject; None for a subject that no user matches."""
    if subject.kind in ("User", "Group"):
        return namespace, subject.kind, subject.name
    account_namespace = subject.namespace or namespace
    if subject.kind != "ServiceAccount" or not account_namespace:
        return None
    return namespace, "User", f"{_ACCOUNT_PREFIX}{account_namespace}:{subject.name}"


def _missing_role(grant: _Grant) -> str:
    return f"{grant.role_kind.lower()}.{GROUP} {_quote(grant.role_name)} not found"


def _join(errors: Iterable[str]) -> str:
    """Return errors as Kubernetes' `Aggregate` does: each once, in brackets if they are several."""
    once = list(dict.fromkeys(errors))
    if len(once) == 1:
        return once[0]
    if len(once) > _MAX_ERRORS:
        once[_MAX_ERRORS:] = [f"and {len(once) - _MAX_ERRORS} more"]
    return f"[{', '.join(once)}]"


def join_errors(errors: Sequence[str]) -> str:
    """Return errors as one text; "" without any."""
    return _join(errors) if errors else ""


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)

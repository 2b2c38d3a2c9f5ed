"""Authorization checks.

`Authorizer` is the value of the variable `authorizer`; its `decide` belongs to the environment that evaluates.
Pure: no I/O, no clock, no randomness. Source: Kubernetes `apiserver/pkg/cel/library/authz.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from bridgehead.apiserver.cel.costs import AUTHORIZATION_CHECK
from bridgehead.apiserver.cel.declarations import Overload, overload
from bridgehead.apiserver.cel.errors import EvaluationError
from bridgehead.apiserver.cel.types import opaque
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain

_PREFIX = "kubernetes.authorization"


@dataclass(frozen=True, slots=True)
class Decision:
    allowed: bool
    reason: str = ""
    error: str = ""
    cel_type = opaque(f"{_PREFIX}.Decision")


@dataclass(frozen=True, slots=True)
class AccessQuery:
    """A question to the authorizer. `path` is set for non-resource requests; `service_account` is (namespace, name)."""

    verb: str = ""
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""
    service_account: tuple[str, str] | None = None


Decide = Callable[[AccessQuery], Decision]


@dataclass(frozen=True, slots=True)
class _Check:
    decide: Decide
    query: AccessQuery = AccessQuery()


class Authorizer(_Check):
    __slots__ = ()
    cel_type = opaque(f"{_PREFIX}.Authorizer")


class PathCheck(_Check):
    __slots__ = ()
    cel_type = opaque(f"{_PREFIX}.PathCheck")


class GroupCheck(_Check):
    __slots__ = ()
    cel_type = opaque(f"{_PREFIX}.GroupCheck")


class ResourceCheck(_Check):
    __slots__ = ()
    cel_type = opaque(f"{_PREFIX}.ResourceCheck")


AUTHORIZER, RESOURCE_CHECK = Authorizer.cel_type, ResourceCheck.cel_type


def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    errors = check_dns1123_subdomain(name)
    if errors:
        raise EvaluationError(f"Invalid service account name: {', '.join(errors)}")
    errors = check_dns1123_label(namespace)
    if errors:
        raise EvaluationError(f"Invalid service account namespace: {', '.join(errors)}")
    return Authorizer(authorizer.decide, replace(authorizer.query, service_account=(namespace, name)))


def _path(authorizer: Authorizer, path: str) -> PathCheck:
    if not path.strip():
        raise EvaluationError("path must not be empty")
    return PathCheck(authorizer.decide, replace(authorizer.query, path=path))


def _group(authorizer: Authorizer, group: str) -> GroupCheck:
    return GroupCheck(authorizer.decide, replace(authorizer.query, group=group))


def _resource(check: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise EvaluationError("resource must not be empty")
    return ResourceCheck(check.decide, replace(check.query, resource=resource))


def _refine(field: str) -> tuple[Overload, ...]:
    def run(check: ResourceCheck, value: str) -> ResourceCheck:
        changed = {field: value}
        return ResourceCheck(check.decide, replace(check.query, **changed))  # type: ignore[arg-type]  # texts only

    return (overload(f"{_PREFIX}.ResourceCheck.(string) -> {_PREFIX}.ResourceCheck", run),)


def _check(check: _Check, verb: str) -> Decision:
    return check.decide(replace(check.query, verb=verb))


_A, _D = f"{_PREFIX}.Authorizer", f"{_PREFIX}.Decision"

FUNCTIONS: Mapping[str, tuple[Overload, ...]] = {
    "path": (overload(f"{_A}.(string) -> {_PREFIX}.PathCheck", _path),),
    "group": (overload(f"{_A}.(string) -> {_PREFIX}.GroupCheck", _group),),
    "serviceAccount": (overload(f"{_A}.(string, string) -> {_A}", _service_account),),
    "resource": (overload(f"{_PREFIX}.GroupCheck.(string) -> {_PREFIX}.ResourceCheck", _resource),),
    "subresource": _refine("subresource"),
    "namespace": _refine("namespace"),
    "name": _refine("name"),
    "fieldSelector": _refine("field_selector"),
    "labelSelector": _refine("label_selector"),
    "check": (
        overload(f"{_PREFIX}.PathCheck.(string) -> {_D}", _check, AUTHORIZATION_CHECK),
        overload(f"{_PREFIX}.ResourceCheck.(string) -> {_D}", _check, AUTHORIZATION_CHECK),
    ),
    "allowed": (overload(f"{_D}.() -> bool", lambda decision: decision.allowed),),
    "reason": (overload(f"{_D}.() -> string", lambda decision: decision.reason),),
    "errored": (overload(f"{_D}.() -> bool", lambda decision: bool(decision.error)),),
    "error": (overload(f"{_D}.() -> string", lambda decision: decision.error),),
}

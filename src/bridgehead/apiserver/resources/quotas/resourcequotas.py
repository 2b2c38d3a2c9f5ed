"""ResourceQuota (core/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `ValidateResourceQuota`, `ValidateResourceQuotaUpdate`, `ValidateResourceQuotaStatusUpdate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at
from bridgehead.apiserver.resources.shared.resource_amounts import validate_resource_amount
from bridgehead.apiserver.resources.shared.resource_names import (
    POD_COMPUTE,
    is_standard_quota_name,
    validate_quota_name,
)
from bridgehead.objects.names import check_dns1123_subdomain

_OF_PODS = frozenset({"pods"}) | POD_COMPUTE
_OF_CLAIMS = frozenset({"persistentvolumeclaims", "requests.storage"})
# The standard resources that a quota with a scope may limit.
_RESOURCES_OF_SCOPES = {
    "Terminating": _OF_PODS,
    "NotTerminating": _OF_PODS,
    "BestEffort": frozenset({"pods"}),
    "NotBestEffort": _OF_PODS,
    "PriorityClass": _OF_PODS,
    "CrossNamespacePodAffinity": _OF_PODS,
    "VolumeAttributesClass": _OF_CLAIMS,
}
# The fields of a requirement in Kubernetes' internal type, which errors show.
_REQUIREMENT_FIELDS: Mapping[str, Any] = {
    "scopeName": "",
    "operator": "",
    "values": None,
}
_CONFLICTING = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_ONLY_EXISTS = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")


class ResourceQuotaStrategy(StatusStrategy):
    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {}

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec, status = obj.setdefault("spec", {}), obj.get("status", {})
        errors = _validate_amounts("spec.hard", spec.get("hard", {}))
        errors += _validate_scopes(spec)
        if "scopeSelector" in spec:
            errors += _validate_scope_selector(spec)
        errors += _validate_amounts("status.hard", status.get("hard", {}))
        return errors + _validate_amounts("status.used", status.get("used", {}))

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        scopes, before = (one.get("spec", {}).get("scopes", []) for one in (obj, old))
        return [] if set(scopes) == set(before) else [field.invalid("spec.scopes", scopes, field.IMMUTABLE)]


def _validate_amounts(path: str, amounts: JsonObject) -> list[FieldError]:
    errors = []
    for name, quantity in amounts.items():
        errors.extend(field.errors_below(f"{path}[{name}]", validate_quota_name, name))
        errors.extend(field.errors_below(f"{path}[{name}]", validate_resource_amount, quantity, name))
    return errors


def _validate_scopes(spec: JsonObject) -> list[FieldError]:
    path, scopes, errors = "spec.scopes", spec.get("scopes", []), []
    for scope in scopes:
        if scope not in _RESOURCES_OF_SCOPES:
            errors.append(field.invalid(path, scopes, "unsupported scope"))
        errors += [field.invalid(path, scopes, _UNSUPPORTED)] * _misfits(scope, spec)
    return errors + _conflicts(path, scopes, scopes)


_UNSUPPORTED = "unsupported scope applied to resource"


def _validate_scope_selector(spec: JsonObject) -> list[FieldError]:
    path, selector, errors = "spec.scopeSelector.matchExpressions", spec["scopeSelector"], []
    requirements = selector.get("matchExpressions", [])
    for requirement in requirements:
        scope, operator = requirement.get("scopeName", ""), requirement.get("operator", "")
        values = requirement.get("values", [])
        if scope not in _RESOURCES_OF_SCOPES:
            errors.append(field.invalid(f"{path}.scopeName", scope, "unsupported scope"))
        errors += [field.invalid(path, _shown(selector), _UNSUPPORTED)] * _misfits(scope, spec)
        if scope in _ONLY_EXISTS and operator != "Exists":
            detail = (
                "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
                "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
                "ResourceQuotaScopeCrossNamespacePodAffinity"
            )
            errors.append(field.invalid(f"{path}.operator", operator, detail))
        if operator in ("In", "NotIn"):
            if not values:
                detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                errors.append(field.required(f"{path}.values", detail))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                errors.append(field.invalid(f"{path}.values", values, detail))
        else:
            errors.append(field.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    return errors + _conflicts(path, [one.get("scopeName", "") for one in requirements], spec.get("scopes", []))


def _shown(selector: JsonObject) -> JsonObject:
    """Return a selector as errors show it."""
    requirements = selector.get("matchExpressions")
    shown = requirements and [field.internal_value(one, _REQUIREMENT_FIELDS) for one in requirements]
    return {"MatchExpressions": shown}


def _misfits(scope: str, spec: JsonObject) -> int:
    """Return the number of limited resources that the scope does not apply to."""
    fitting = _RESOURCES_OF_SCOPES.get(scope)
    if fitting is None:
        return 0
    return sum(is_standard_quota_name(name) and name not in fitting for name in spec.get("hard", {}))


def _conflicts(path: str, scopes: Sequence[str], shown: Sequence[str]) -> list[FieldError]:
    pairs = (pair for pair in _CONFLICTING if all(scope in scopes for scope in pair))
    return [field.invalid(path, shown, "conflicting scopes") for _ in pairs]


def _amounts_text(quota: JsonObject, *, of_limits: bool) -> str:
    """Render what is used of each limited resource: `cpu: 1/2, pods: 3/10`."""
    used = at(quota, "status", "used") or {}
    hard = sorted((at(quota, "status", "hard") or {}).items())
    return ", ".join(
        f"{name}: {used.get(name, '0')}/{amount}" for name, amount in hard if name.startswith("limits.") is of_limits
    )


RESOURCE = Resource(
    group="",
    version="v1",
    kind="ResourceQuota",
    plural="resourcequotas",
    singular="resourcequota",
    namespaced=True,
    short_names=("quota",),
    subresources=("status",),
    strategy=ResourceQuotaStrategy(),
    columns=(
        NAME,
        Column("Request", lambda obj, now: _amounts_text(obj, of_limits=False)),
        Column("Limit", lambda obj, now: _amounts_text(obj, of_limits=True)),
        AGE,
    ),
    returns_deleted=True,
    check_name=check_dns1123_subdomain,
)

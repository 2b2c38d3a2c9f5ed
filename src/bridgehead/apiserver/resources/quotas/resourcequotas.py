"""ResourceQuota (core/v1): its entry in the table and its rules.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `ValidateResourceQuota`, `ValidateResourceQuotaUpdate`, `ValidateResourceQuotaStatusUpdate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bridgehead.apiserver.field import IMMUTABLE, Field, internal_value
from bridgehead.apiserver.resource import Column, JsonObject, Resource, StatusStrategy
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
_REQUIREMENT_FIELDS: Mapping[str, Any] = {"scopeName": "", "operator": "", "values": None}
_CONFLICTING = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_ONLY_EXISTS = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
_MUST_EXIST = (
    "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
    "ResourceQuotaScopeCrossNamespacePodAffinity"
)


class ResourceQuotaStrategy(StatusStrategy):
    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {}
        obj.setdefault("spec", {})

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        super().prepare_update(obj, old, subresource)
        obj.setdefault("spec", {})

    def validate(self, obj: Field) -> None:
        spec, status = obj.at("spec"), obj.at("status")
        _validate_amounts(spec.at("hard"))
        _validate_scopes(spec)
        _validate_scope_selector(spec)
        _validate_amounts(status.at("hard"))
        _validate_amounts(status.at("used"))

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        scopes = obj.at("spec").at("scopes", [])
        if set(scopes.value) != set(old.get("spec", {}).get("scopes", ())):
            scopes.invalid(IMMUTABLE)


def _validate_amounts(amounts: Field) -> None:
    for name, quantity in amounts.entries():
        validate_quota_name(quantity.showing(name))
        validate_resource_amount(quantity, name)


def _validate_scopes(spec: Field) -> None:
    scopes = spec.at("scopes", [])
    for scope in scopes.value:
        if scope not in _RESOURCES_OF_SCOPES:
            scopes.invalid("unsupported scope")
        _validate_fit(scopes, scope, spec)
    _validate_conflicts(scopes, scopes.value)


def _validate_scope_selector(spec: Field) -> None:
    requirements = spec.at("scopeSelector").at("matchExpressions")
    expressions = requirements.value or ()
    shown = requirements.showing(
        {"MatchExpressions": [internal_value(one, _REQUIREMENT_FIELDS) for one in expressions]}
    )
    for value in expressions:
        requirement = requirements.showing(value)  # Kubernetes does not name the index
        scope, operator = requirement.at("scopeName", ""), requirement.at("operator", "")
        values = requirement.at("values")
        if scope.value not in _RESOURCES_OF_SCOPES:
            scope.invalid("unsupported scope")
        _validate_fit(shown, scope.value, spec)
        if scope.value in _ONLY_EXISTS and operator.value != "Exists":
            operator.invalid(_MUST_EXIST)
        if operator.value in ("In", "NotIn"):
            values.must_be_set("must be at least one value when `operator` is 'In' or 'NotIn' for scope selector")
        elif operator.value not in ("Exists", "DoesNotExist"):
            operator.invalid("not a valid selector operator")
        elif values:
            values.invalid("must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector")
    scopes = [one.get("scopeName", "") for one in expressions]
    _validate_conflicts(requirements.showing(spec.get("scopes", [])), scopes)


def _validate_fit(scopes: Field, scope: str, spec: Field) -> None:
    """Add an error about `scopes` for each limited resource that one of them, `scope`, does not apply to."""
    fitting = _RESOURCES_OF_SCOPES.get(scope)
    for name in spec.get("hard", {}):
        if fitting is not None and is_standard_quota_name(name) and name not in fitting:
            scopes.invalid("unsupported scope applied to resource")


def _validate_conflicts(shown: Field, scopes: Sequence[str]) -> None:
    for pair in _CONFLICTING:
        if all(scope in scopes for scope in pair):
            shown.invalid("conflicting scopes")


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

"""LimitRange (core/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateLimitRange`, `SetDefaults_LimitRangeItem`.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, Decimal
from typing import Any

from bridgehead.apiserver.field import Field, FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import NAME, at
from bridgehead.apiserver.resources.shared.quantities import amount_of
from bridgehead.apiserver.resources.shared.resource_names import (
    can_overcommit,
    validate_container_name,
    validate_resource_name,
)
from bridgehead.objects.names import check_dns1123_subdomain, check_qualified_name

_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
# The most of which Kubernetes can count thousandths.
_MOST_MILLI = (2**63 - 1) // 1000
_FIELDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
# (lower, higher, the field that the error is about, the field whose value is shown, the text): lower <= higher.
_ORDER = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "min value {} is greater than default request value {}",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than max value {}",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)


class LimitRangeStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        for limit in obj.setdefault("spec", {}).get("limits", ()):
            if limit.get("type") == "Container":
                _set_defaults(limit)

    def validate(self, obj: JsonObject) -> list[FieldError]:
        errors: list[FieldError] = []
        seen: set[str] = set()
        for index, limit in enumerate(obj["spec"].get("limits", ())):
            path, kind = f"spec.limits[{index}]", limit.get("type", "")
            errors += _validate_type(f"{path}.type", kind)
            if kind in seen:
                errors.append(field.duplicate(f"{path}.type", kind))
            seen.add(kind)
            errors += _validate_limit(path, limit)
        return errors


def _set_defaults(limit: JsonObject) -> None:
    for target, source in (("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")):
        for name, quantity in limit.get(source, {}).items():
            limit.setdefault(target, {}).setdefault(name, quantity)


def _validate_type(path: str, type: str) -> list[FieldError]:
    if errors := field.invalid_for(path, type, check_qualified_name(type)):
        return errors
    if "/" in type or type in _TYPES:
        return []
    return [field.invalid(path, type, "must be a standard limit type or fully qualified")]


def _validate_limit(path: str, limit: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    limited = limit.get("type", "")
    check: Callable[[Field], object]
    check = validate_container_name if limited in ("Pod", "Container") else validate_resource_name
    names: dict[str, None] = {}
    for kind in _FIELDS:
        if limited == "Pod" and kind in ("default", "defaultRequest"):
            if limit.get(kind):
                errors.append(field.forbidden(f"{path}.{kind}", "may not be specified when `type` is 'Pod'"))
            continue
        for name in limit.get(kind, {}):
            errors += field.errors_below(f"{path}.{kind}[{name}]", check, name)
            names[name] = None
    if limited == "PersistentVolumeClaim" and not any("storage" in limit.get(kind, {}) for kind in ("min", "max")):
        detail = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(field.required(f"{path}.limits", detail))
    for name in names:
        errors += _validate_order(path, name, limit)
        errors += _validate_ratio(path, name, limit)
    return errors


def _validate_order(path: str, name: str, limit: JsonObject) -> list[FieldError]:
    errors = []
    for lower, higher, about, shown, text in _ORDER:
        low, high = _amount(limit, lower, name), _amount(limit, higher, name)
        if low is not None and high is not None and low > high:
            detail = text.format(limit[lower][name], limit[higher][name])
            errors.append(field.invalid(f"{path}.{about}[{name}]", limit[shown][name], detail))
    default, request = _amount(limit, "default", name), _amount(limit, "defaultRequest", name)
    if not can_overcommit(name) and default is not None and request is not None and default != request:
        given = limit["defaultRequest"][name]
        detail = f"default value {limit['default'][name]} must equal to defaultRequest value {given} in {name}"
        errors.append(field.invalid(f"{path}.defaultRequest[{name}]", given, detail))
    return errors


def _validate_ratio(path: str, name: str, limit: JsonObject) -> list[FieldError]:
    ratio, low, high = (_amount(limit, kind, name) for kind in ("maxLimitRequestRatio", "min", "max"))
    if ratio is None:
        return []
    path, given, errors = f"{path}.maxLimitRequestRatio[{name}]", limit["maxLimitRequestRatio"][name], []
    if ratio < 1:
        errors.append(field.invalid(path, given, f"ratio {given} is less than 1"))
    if low and high is not None:
        amounts = (ratio, low, high)
        if all(amount < _MOST_MILLI for amount in amounts):
            share = high / low
        else:  # Kubernetes' thousandths would overflow
            ratio, low, high = (amount.to_integral_value(ROUND_CEILING) for amount in amounts)
            share = high / low if low else ratio
        if ratio > share:
            errors.append(field.invalid(path, given, f"ratio {given} is greater than max/min = {float(share):f}"))
    return errors


def _amount(limit: JsonObject, kind: str, name: str) -> Decimal | None:
    quantity: Any = limit.get(kind, {}).get(name)
    return None if quantity is None else amount_of(quantity)


RESOURCE = Resource(
    group="",
    version="v1",
    kind="LimitRange",
    plural="limitranges",
    singular="limitrange",
    namespaced=True,
    short_names=("limits",),
    strategy=LimitRangeStrategy(),
    is_created_by_update=True,
    columns=(NAME, Column("Created At", lambda obj, now: at(obj, "metadata", "creationTimestamp") or "", type="date")),
    check_name=check_dns1123_subdomain,
)

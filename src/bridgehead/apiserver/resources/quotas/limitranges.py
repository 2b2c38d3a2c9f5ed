"""LimitRange (core/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateLimitRange`, `SetDefaults_LimitRangeItem`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, Decimal

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared.columns import NAME, at
from bridgehead.apiserver.resources.shared.quantity_rules import amount_of
from bridgehead.apiserver.resources.shared.resource_names import (
    can_overcommit,
    validate_container_name,
    validate_resource_name,
)
from bridgehead.objects.names import check_dns1123_subdomain, check_qualified_name

_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
# The most of which Kubernetes can count thousandths.
_MOST_MILLI = (2**63 - 1) // 1000
_REQUEST = "defaultRequest"
_FIELDS = ("max", "min", "default", _REQUEST, "maxLimitRequestRatio")
# (lower, higher, the field that the error is about, the field whose value is shown, the text): lower <= higher.
_ORDER = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    ("min", _REQUEST, _REQUEST, _REQUEST, "min value {} is greater than default request value {}"),
    (_REQUEST, "max", _REQUEST, _REQUEST, "default request value {} is greater than max value {}"),
    (_REQUEST, "default", _REQUEST, _REQUEST, "default request value {} is greater than default limit value {}"),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)


class LimitRangeStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        for limit in obj.setdefault("spec", {}).get("limits", ()):
            if limit.get("type") == "Container":
                _set_defaults(limit)

    def validate(self, obj: Field) -> None:
        types: set[str] = set()
        for limit in obj.at("spec").at("limits").each():
            type_ = limit.at("type", "")
            _validate_type(type_)
            type_.must_not_repeat(types)
            _validate_limit(limit)


def _set_defaults(limit: JsonObject) -> None:
    for target, source in (("default", "max"), (_REQUEST, "default"), (_REQUEST, "min")):
        for name, quantity in limit.get(source, {}).items():
            limit.setdefault(target, {}).setdefault(name, quantity)


def _validate_type(type_: Field) -> None:
    if type_.must_pass(check_qualified_name) and "/" not in type_.value and type_.value not in _TYPES:
        type_.invalid("must be a standard limit type or fully qualified")


def _validate_limit(limit: Field) -> None:
    limited = limit.get("type", "")
    validate_name: Callable[[Field], object]
    validate_name = validate_container_name if limited in ("Pod", "Container") else validate_resource_name
    names: dict[str, None] = {}
    for kind in _FIELDS:
        amounts = limit.at(kind)
        if limited == "Pod" and kind in ("default", _REQUEST):
            amounts.must_not_be_set("may not be specified when `type` is 'Pod'")
            continue
        for name, amount in amounts.entries():
            validate_name(amount.showing(name))
            names[name] = None
    if limited == "PersistentVolumeClaim" and not any("storage" in limit.get(kind, {}) for kind in ("min", "max")):
        limit.at("limits").required("either minimum or maximum storage value is required, but neither was provided")
    for name in names:
        values = {kind: limit.at(kind).entry(name) for kind in _FIELDS}
        _validate_order(values, name)
        _validate_ratio(values)


def _validate_order(values: Mapping[str, Field], resource: str) -> None:
    """Validate the order of the values for one resource."""
    for lower, higher, about, shown, text in _ORDER:
        low, high = _amount(values[lower]), _amount(values[higher])
        if low is not None and high is not None and low > high:
            detail = text.format(values[lower].value, values[higher].value)
            values[about].showing(values[shown].value).invalid(detail)
    default, request = values["default"], values[_REQUEST]
    amount, requested = _amount(default), _amount(request)
    if not can_overcommit(resource) and amount is not None and requested is not None and amount != requested:
        request.invalid(
            f"default value {default.value} must equal to defaultRequest value {request.value} in {resource}"
        )


def _validate_ratio(values: Mapping[str, Field]) -> None:
    given = values["maxLimitRequestRatio"]
    ratio, low, high = _amount(given), _amount(values["min"]), _amount(values["max"])
    if ratio is None:
        return
    if ratio < 1:
        given.invalid(f"ratio {given.value} is less than 1")
    if low and high is not None:
        amounts = (ratio, low, high)
        if all(amount < _MOST_MILLI for amount in amounts):
            share = high / low
        else:  # Kubernetes' thousandths would overflow
            ratio, low, high = (amount.to_integral_value(ROUND_CEILING) for amount in amounts)
            share = high / low if low else ratio
        if ratio > share:
            given.invalid(f"ratio {given.value} is greater than max/min = {float(share):f}")


def _amount(quantity: Field) -> Decimal | None:
    return None if quantity.value is None else amount_of(quantity.value)


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

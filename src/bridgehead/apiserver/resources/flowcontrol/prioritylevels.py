"""PriorityLevelConfiguration (flowcontrol.apiserver.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePriorityLevelConfiguration`.
"""

from __future__ import annotations

import math

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import CLIENT_METADATA, Column, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, NONE, at, text_column
from bridgehead.objects.names import check_dns1123_subdomain

from .flowschemas import validate_conditions
from .mandatory import PRIORITY_LEVEL_SPECS

_TYPES, _RESPONSES = ("Exempt", "Limited"), ("Queue", "Reject")
_DEFAULT_SHARES = 30
_QUEUING = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
_MAX_QUEUES, _MAX_HASH_BITS = 10_000_000, 60
_PERCENT = "must be between 0 and 100, inclusive"


class PriorityLevelStrategy(StatusStrategy):
    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        obj.setdefault("status", {})
        if (exempt := spec.get("exempt")) is not None:
            exempt.setdefault("nominalConcurrencyShares", 0)
            exempt.setdefault("lendablePercent", 0)
        if (limited := spec.get("limited")) is not None:
            limited.setdefault("nominalConcurrencyShares", _DEFAULT_SHARES)
            limited.setdefault("lendablePercent", 0)
            if (queuing := at(limited, "limitResponse", "queuing")) is not None:
                for name, value in _QUEUING.items():
                    queuing[name] = queuing.get(name) or value

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {}

    def validate(self, obj: JsonObject) -> list[FieldError]:
        name, spec = at(obj, "metadata", "name") or "", obj.get("spec", {})
        errors = _validate_spec("spec", spec, name)
        fixed = PRIORITY_LEVEL_SPECS.get(name)
        if fixed is not None and name == "exempt":
            if {**spec, "exempt": None} != {**fixed, "exempt": None}:
                detail = "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"
                errors.append(field.invalid("spec", spec, detail))
        elif fixed is not None and spec != fixed:
            errors.append(field.invalid("spec", spec, f"spec of '{name}' must equal the fixed value"))
        return [*errors, *validate_conditions(at(obj, "status", "conditions") or ())]


def _validate_spec(path: str, spec: JsonObject, name: str) -> list[FieldError]:
    type_ = spec.get("type", "")
    errors = []
    if (name == "exempt") != (type_ == "Exempt"):
        errors.append(field.invalid(f"{path}.type", type_, "type must be 'Exempt' if and only if name is 'exempt'"))
    match type_:
        case "Exempt":
            if "limited" in spec:
                errors.append(field.forbidden(f"{path}.limited", "must be nil if the type is not Limited"))
            if "exempt" in spec:
                errors.extend(_validate_shares(f"{path}.exempt", spec["exempt"]))
        case "Limited":
            if "exempt" in spec:
                errors.append(field.forbidden(f"{path}.exempt", "must be nil if the type is Limited"))
            if "limited" in spec:
                errors.extend(_validate_limited(f"{path}.limited", spec["limited"]))
            else:
                errors.append(field.required(f"{path}.limited", "must not be empty when type is Limited"))
        case _:
            errors.append(field.not_supported(f"{path}.type", type_, _TYPES))
    return errors


def _validate_shares(path: str, level: JsonObject) -> list[FieldError]:
    errors = []
    shares, lendable = level.get("nominalConcurrencyShares", 0), level.get("lendablePercent", 0)
    if shares < 0:
        errors.append(field.invalid(f"{path}.nominalConcurrencyShares", shares, "must be a non-negative integer"))
    if not 0 <= lendable <= 100:
        errors.append(field.invalid(f"{path}.lendablePercent", lendable, _PERCENT))
    return errors


def _validate_limited(path: str, limited: JsonObject) -> list[FieldError]:
    errors = _validate_shares(path, limited)
    borrowing = limited.get("borrowingLimitPercent", 0)
    if borrowing < 0:
        detail = "if specified, must be a non-negative integer"
        errors.append(field.invalid(f"{path}.borrowingLimitPercent", borrowing, detail))
    response, item = limited.get("limitResponse", {}), f"{path}.limitResponse"
    type_, queuing = response.get("type", ""), response.get("queuing")
    match type_:
        case "Reject":
            if queuing is not None:
                detail = "must be nil if limited.limitResponse.type is not Limited"
                errors.append(field.forbidden(f"{item}.queuing", detail))
        case "Queue":
            if queuing is None:
                detail = "must not be empty if limited.limitResponse.type is Limited"
                errors.append(field.required(f"{item}.queuing", detail))
            else:
                errors.extend(_validate_queuing(f"{item}.queuing", queuing))
        case _:
            errors.append(field.not_supported(f"{item}.type", type_, _RESPONSES))
    return errors


def _validate_queuing(path: str, queuing: JsonObject) -> list[FieldError]:
    queues, hand, length = (queuing.get(name, 0) for name in _QUEUING)
    errors = []
    if length <= 0:
        errors.append(field.invalid(f"{path}.queueLengthLimit", length, "must be positive"))
    if queues <= 0:
        errors.append(field.invalid(f"{path}.queues", queues, "must be positive"))
    elif queues > _MAX_QUEUES:
        errors.append(field.invalid(f"{path}.queues", queues, f"must not be greater than {_MAX_QUEUES}"))
    item = f"{path}.handSize"
    if hand <= 0:
        errors.append(field.invalid(item, hand, "must be positive"))
    elif hand > queues:
        errors.append(field.invalid(item, hand, f"should not be greater than queues ({queues})"))
    elif _entropy_bits(queues, hand) > _MAX_HASH_BITS:
        detail = (
            f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than "
            f"{_MAX_HASH_BITS}"
        )
        errors.append(field.invalid(item, hand, detail))
    return errors


def _entropy_bits(deck: int, hand: int) -> int:
    """Return how many random bits it takes to deal a hand of distinct queues (shuffle sharding)."""
    return math.ceil(math.log2(deck) * hand)


def _limited_column(name: str, *path: str) -> Column:
    def cell(level: JsonObject, now: float) -> str | int:
        value = at(level, "spec", "limited", *path)
        return int(value) if value is not None else NONE

    return Column(name, cell)


def _shares_cell(level: JsonObject, now: float) -> str | int:
    for kind in ("limited", "exempt"):
        value = at(level, "spec", kind, "nominalConcurrencyShares")
        if value is not None:
            return int(value)
    return NONE


RESOURCE = Resource(
    group="flowcontrol.apiserver.k8s.io",
    version="v1",
    kind="PriorityLevelConfiguration",
    plural="prioritylevelconfigurations",
    singular="prioritylevelconfiguration",
    namespaced=False,
    subresources=("status",),
    strategy=PriorityLevelStrategy(),
    columns=(
        NAME,
        text_column("Type", "spec", "type"),
        Column("NominalConcurrencyShares", _shares_cell),
        _limited_column("Queues", "limitResponse", "queuing", "queues"),
        _limited_column("HandSize", "limitResponse", "queuing", "handSize"),
        _limited_column("QueueLengthLimit", "limitResponse", "queuing", "queueLengthLimit"),
        AGE,
    ),
    has_generation=True,
    check_name=check_dns1123_subdomain,
    kept_by_status=CLIENT_METADATA,
)

"""PriorityLevelConfiguration (flowcontrol.apiserver.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePriorityLevelConfiguration`.
"""

from __future__ import annotations

import math

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import CLIENT_METADATA, Column, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, NONE, at, text_column
from bridgehead.objects.names import check_dns1123_subdomain

from .flowschemas import validate_conditions
from .mandatory import PRIORITY_LEVEL_SPECS

_TYPES, _RESPONSES = ("Exempt", "Limited"), ("Queue", "Reject")
_DEFAULT_SHARES = 30
_QUEUING = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
_MAX_QUEUES, _MAX_HASH_BITS = 10_000_000, 60


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

    def validate(self, obj: Field) -> None:
        spec, name = obj.at("spec", {}), at(obj.value, "metadata", "name") or ""
        _validate_spec(spec, name)
        fixed = PRIORITY_LEVEL_SPECS.get(name)
        if fixed is not None and name == "exempt":
            if {**spec.value, "exempt": None} != {**fixed, "exempt": None}:
                spec.invalid("spec of 'exempt' except the 'spec.exempt' field must equal the fixed value")
        elif fixed is not None and spec.value != fixed:
            spec.invalid(f"spec of '{name}' must equal the fixed value")
        validate_conditions(obj.at("status").at("conditions"))


def _validate_spec(spec: Field, name: str) -> None:
    type_, exempt, limited = spec.at("type", ""), spec.at("exempt"), spec.at("limited")
    if (name == "exempt") != (type_.value == "Exempt"):
        type_.invalid("type must be 'Exempt' if and only if name is 'exempt'")
    match type_.value:
        case "Exempt":
            limited.must_not_exist("must be nil if the type is not Limited")
            _validate_shares(exempt)
        case "Limited":
            exempt.must_not_exist("must be nil if the type is Limited")
            if limited.must_exist("must not be empty when type is Limited"):
                _validate_limited(limited)
        case _:
            type_.not_supported(_TYPES)


def _validate_shares(level: Field) -> None:
    level.at("nominalConcurrencyShares").must_be_at_least(0, "must be a non-negative integer")
    level.at("lendablePercent").must_be_within(0, 100)


def _validate_limited(limited: Field) -> None:
    _validate_shares(limited)
    limited.at("borrowingLimitPercent").must_be_at_least(0, "if specified, must be a non-negative integer")
    response = limited.at("limitResponse")
    type_, queuing = response.at("type", ""), response.at("queuing")
    match type_.value:
        case "Reject":
            queuing.must_not_exist("must be nil if limited.limitResponse.type is not Limited")
        case "Queue":
            if queuing.must_exist("must not be empty if limited.limitResponse.type is Limited"):
                _validate_queuing(queuing)
        case _:
            type_.not_supported(_RESPONSES)


def _validate_queuing(queuing: Field) -> None:
    queues, hand, length = (queuing.at(name, 0) for name in _QUEUING)
    length.must_be_at_least(1, "must be positive")
    queues.must_be_at_least(1, "must be positive")
    queues.must_be_at_most(_MAX_QUEUES, f"must not be greater than {_MAX_QUEUES}")
    if not hand.must_be_at_least(1, "must be positive"):
        return
    if hand.value > queues.value:
        hand.invalid(f"should not be greater than queues ({queues.value})")
    elif _entropy_bits(queues.value, hand.value) > _MAX_HASH_BITS:
        hand.invalid(
            f"required entropy bits of deckSize {queues.value} and handSize {hand.value} should not be greater than "
            f"{_MAX_HASH_BITS}"
        )


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

"""Rules that the kinds of devices share: names, selectors, configurations, requests of a claim.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/resource/validation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import msgspec

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.objects.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_label_value,
    check_qualified_name,
)

from .qualified_names import validate_driver, validate_full_name

MAX_CONFIGS = _MAX_REQUESTS = _MAX_CONSTRAINTS = _MAX_SELECTORS = 32
_MAX_SUBREQUESTS = 8
_MAX_POOL, _MAX_PARAMETERS = 253, 10 * 1024
_ALLOCATION_MODES = ("All", "ExactCount")
_MAX_BINDING_CONDITIONS = 4
_TOLERATION_OPERATORS = ("Equal", "Exists")
_EFFECTS = ("NoExecute", "NoSchedule", "None")
_UNKNOWN_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)

Names = Mapping[str, frozenset[str]]
_MAX_EXPRESSION = 10 * 1024
# Selectors whose outcome is remembered: claims of one template have equal ones.
_REMEMBERED = 256


def validate_items(
    items: Field,
    limit: int | None,
    validate: Callable[[Field], object],
    key: Callable[[Any], Any] | None = None,
) -> None:
    """Validate a list of at most `limit` items (None: any number). With a `key`, items must be unique by it.

    The items of a list that is too long are not looked at.
    """
    if limit is not None and not items.must_have_at_most(limit):
        return
    items.must_all_obey(validate)
    if key is not None:
        for item in items.repeated(key):
            item.showing(key(item.value)).duplicate()


def name_of(item: JsonObject) -> str:
    return str(item.get("name", ""))


def validate_pool(pool: Field) -> None:
    if not pool.must_be_set():
        return
    if len(pool.value) > _MAX_POOL:
        pool.too_long(_MAX_POOL)
    for part in pool.value.split("/"):
        pool.showing(part).must_pass(check_dns1123_subdomain)


def validate_selectors(selectors: Field) -> None:
    def validate(selector: Field) -> None:
        cel = selector.at("cel")
        if cel.must_exist():
            _validate_selector(cel.at("expression", ""))

    validate_items(selectors, _MAX_SELECTORS, validate)


def _validate_selector(expression: Field) -> None:
    """Add an error unless an expression of CEL, which is imported with the first, compiles within the limit of cost."""
    if not expression.must_have_at_most_bytes(_MAX_EXPRESSION):
        return
    reason, problem = _compile(expression.value)
    match reason:
        case "Invalid":
            expression.invalid(problem)
        case "Internal":
            expression.internal(problem)
        case "Forbidden":
            expression.forbidden(problem)


@lru_cache(_REMEMBERED)
def _compile(expression: str) -> tuple[str, str]:
    """Return the reason for which an expression is refused, or "", and the problem."""
    from bridgehead.apiserver.cel import CompileError, ProgramError
    from bridgehead.apiserver.cel.device_environment import MOST_COST, compile_selector

    try:
        cost = compile_selector(expression).most_cost
    except ProgramError as error:
        return "Internal", str(error)
    except CompileError as error:
        return "Invalid", str(error)
    return ("Forbidden", "too complex, exceeds cost limit") if cost > MOST_COST else ("", "")


def validate_raw_object(raw: Field, *, is_stored: bool = False) -> None:
    """Validate an object of a driver's own. An object that `is_stored` already may be of any size."""
    if raw.value is None:
        raw.required()
    elif not is_stored and len(msgspec.json.encode(raw.value)) > _MAX_PARAMETERS:
        raw.too_long(_MAX_PARAMETERS)
    elif not isinstance(raw.value, dict):
        raw.showing("<value omitted>").invalid("must be a valid JSON object")


def validate_configuration(config: Field, *, is_stored: bool = False) -> None:
    """Validate a configuration for a driver, whose parameters are an object of the driver's own."""
    opaque = config.at("opaque")
    if not opaque.must_exist():
        return
    validate_driver(opaque.at("driver", ""))
    validate_raw_object(opaque.at("parameters"), is_stored=is_stored)


def validate_binding_conditions(device: Field) -> None:
    """Validate the types of conditions that a device needs before a pod is bound, and of those that prevent that."""
    wanted, failures = device.at("bindingConditions", ()), device.at("bindingFailureConditions", ())
    if not wanted and not failures:
        return
    for types in (wanted, failures):
        validate_items(types, _MAX_BINDING_CONDITIONS, lambda type_: type_.must_pass(check_qualified_name))
    if max(len(wanted.value), len(failures.value)) <= _MAX_BINDING_CONDITIONS:
        _compare_conditions(wanted, failures)
    if not wanted:
        wanted.showing(None).invalid("bindingConditions are required to use bindingFailureConditions")
    if not failures:
        failures.showing(None).invalid("bindingFailureConditions are required to use bindingConditions")


def _compare_conditions(wanted: Field, failures: Field) -> None:
    """Validate that no type is in both lists, or twice in one."""
    wanted.must_have_no_duplicates()
    seen: set[str] = set()
    for type_ in failures.each():
        type_.must_not_repeat(seen)
        type_.must_not_be_in(wanted.value, "bindingFailureConditions must not overlap with bindingConditions")


def validate_toleration(toleration: Field) -> None:
    key, operator, value = toleration.if_set("key"), toleration.at("operator"), toleration.at("value")
    key.must_pass(check_qualified_name)
    operator.must_be_set_to_one_of(_TOLERATION_OPERATORS)
    if operator.value == "Equal":
        value.must_pass(check_label_value)
    elif operator.value == "Exists" and value:
        value.invalid("must be empty for operator `Exists`")
    toleration.if_set("effect").must_be_one_of(_EFFECTS)


# --- The devices that a claim asks for ------------------------------------------------------------------


def set_claim_defaults(spec: JsonObject) -> None:
    """Set the defaults of a claim's spec: one device for each request."""
    for request in spec.setdefault("devices", {}).get("requests", ()):
        exactly = [request["exactly"]] if "exactly" in request else []
        for one in (*exactly, *request.get("firstAvailable", ())):
            one["allocationMode"] = one.get("allocationMode") or "ExactCount"
            if one["allocationMode"] == "ExactCount" and not one.get("count"):
                one["count"] = 1
            for toleration in one.get("tolerations", ()):
                toleration["operator"] = toleration.get("operator") or "Equal"


def request_names(devices: JsonObject) -> Names:
    """Return the names of requests, each with those of its alternatives."""
    return {
        name_of(request): frozenset(map(name_of, request.get("firstAvailable", ())))
        for request in devices.get("requests", ())
    }


def validate_request_references(owner: Field, names: Names) -> None:
    """Validate the `requests` that a constraint or a configuration is for."""
    validate_items(owner.at("requests"), _MAX_REQUESTS, partial(validate_request_reference, names=names), str)


def validate_request_reference(reference: Field, names: Names) -> None:
    first, *others = reference.value.split("/")
    if len(others) > 1:
        reference.invalid(_UNKNOWN_REQUEST)
        return
    for part in (first, *others):
        reference.showing(part).must_pass(check_dns1123_label)
    if first not in names or any(part not in names[first] for part in others):
        reference.invalid(_UNKNOWN_REQUEST)


def validate_claim_spec(spec: Field) -> None:
    devices = spec.at("devices", {})
    names = request_names(devices.value)

    def validate_constraint(constraint: Field) -> None:
        validate_request_references(constraint, names)
        for name in ("matchAttribute", "distinctAttribute"):
            if name in constraint.value:
                validate_full_name(constraint.at(name))
                return
        constraint.required(
            'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        )

    def validate_config(config: Field) -> None:
        validate_request_references(config, names)
        validate_configuration(config)

    validate_items(devices.at("requests"), _MAX_REQUESTS, _validate_request, name_of)
    validate_items(devices.at("constraints"), _MAX_CONSTRAINTS, validate_constraint)
    validate_items(devices.at("config"), MAX_CONFIGS, validate_config)


def _validate_request(request: Field) -> None:
    request.at("name", "").must_pass(check_dns1123_label)
    alternatives, exactly = request.at("firstAvailable"), request.at("exactly")
    detail = "exactly one of `exactly` or `firstAvailable` is required"
    if alternatives and exactly.value is not None:
        request.showing(None).invalid(f"{detail}, but multiple fields are set")
    elif alternatives:
        validate_items(alternatives, _MAX_SUBREQUESTS, _validate_alternative, name_of)
    elif exactly.value is not None:
        _validate_exact(exactly)
    else:
        request.required(detail)


def _validate_alternative(request: Field) -> None:
    request.at("name", "").must_pass(check_dns1123_label)
    _validate_exact(request)


def _validate_exact(request: Field) -> None:
    mode, count = request.at("allocationMode", ""), request.at("count", 0)
    request.at("deviceClassName").must_be_set_and_pass(check_dns1123_subdomain)
    validate_selectors(request.at("selectors"))
    mode.must_be_one_of(_ALLOCATION_MODES)
    if mode.value == "All" and count:
        count.invalid("must not be specified when allocationMode is 'All'")
    elif mode.value == "ExactCount" and count.value <= 0:
        count.invalid("must be greater than zero")
    request.at("tolerations").must_all_obey(validate_toleration)

"""Rules that the kinds of devices share: names, selectors, configurations, requests of a claim.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/resource/validation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.objects.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_label_value,
    check_qualified_name,
)

from .device_selectors import validate_selector
from .qualified_names import validate_driver, validate_full_name

MAX_CONFIGS = _MAX_REQUESTS = _MAX_CONSTRAINTS = _MAX_SELECTORS = 32
_MAX_SUBREQUESTS = 8
_MAX_POOL, _MAX_PARAMETERS = 253, 10 * 1024
_ALLOCATION_MODES = ("All", "ExactCount")
_MAX_BINDING_CONDITIONS = 4
_BINDING_CONDITIONS = ("bindingConditions", "bindingFailureConditions")
_TOLERATION_OPERATORS = ("Equal", "Exists")
_EFFECTS = ("NoExecute", "NoSchedule", "None")
_UNKNOWN_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)

Names = Mapping[str, frozenset[str]]


def validate_items(
    path: str,
    items: Sequence[Any],
    limit: int,
    validate: Callable[[str, Any], list[FieldError]],
    key: Callable[[Any], Any] | None = None,
) -> list[FieldError]:
    """Validate a list of at most `limit` items (-1: any number). With a `key`, items must be unique by it.

    Of a list that is too long, no item is looked at.
    """
    if 0 <= limit < len(items):
        return [field.too_many(path, len(items), limit)]
    errors = [error for index, item in enumerate(items) for error in validate(f"{path}[{index}]", item)]
    if key is not None:
        seen: set[Any] = set()
        for index, item in enumerate(items):
            name = key(item)
            if name in seen:
                errors.append(field.duplicate(f"{path}[{index}]", name))
            seen.add(name)
    return errors


def name_of(item: JsonObject) -> str:
    return str(item.get("name", ""))


def validate_label_name(path: str, name: str) -> list[FieldError]:
    """Validate the name of a device, a request or a counter."""
    return field.invalid_for(path, name, check_dns1123_label(name))


def validate_pool(path: str, name: str) -> list[FieldError]:
    if not name:
        return [field.required(path)]
    errors = [field.too_long(path, _MAX_POOL)] if len(name) > _MAX_POOL else []
    return errors + [
        e for part in name.split("/") for e in field.invalid_for(path, part, check_dns1123_subdomain(part))
    ]


def validate_selectors(path: str, selectors: Sequence[JsonObject]) -> list[FieldError]:
    def validate(item: str, selector: JsonObject) -> list[FieldError]:
        if "cel" not in selector:
            return [field.required(f"{item}.cel")]
        return validate_selector(f"{item}.cel.expression", selector["cel"].get("expression", ""))

    return validate_items(path, selectors, _MAX_SELECTORS, validate)


def validate_raw_object(path: str, value: Any, *, is_stored: bool = False) -> list[FieldError]:
    """Validate an object of a driver's own. An object that `is_stored` already may be of any size."""
    if value is None:
        return [field.required(path)]
    if not is_stored and len(msgspec.json.encode(value)) > _MAX_PARAMETERS:
        return [field.too_long(path, _MAX_PARAMETERS)]
    return [] if isinstance(value, dict) else [field.invalid(path, "<value omitted>", "must be a valid JSON object")]


def validate_configuration(path: str, config: JsonObject, *, is_stored: bool = False) -> list[FieldError]:
    """Validate a configuration for a driver, whose parameters are an object of the driver's own."""
    if "opaque" not in config:
        return [field.required(f"{path}.opaque")]
    opaque = config["opaque"]
    errors = validate_driver(f"{path}.opaque.driver", opaque.get("driver", ""))
    return errors + validate_raw_object(f"{path}.opaque.parameters", opaque.get("parameters"), is_stored=is_stored)


def validate_binding_conditions(path: str, owner: JsonObject) -> list[FieldError]:
    """Validate the types of conditions that a device needs before a pod is bound, and of those that prevent that."""
    wanted, failures = (owner.get(name, ()) for name in _BINDING_CONDITIONS)
    if not wanted and not failures:
        return []
    errors = []
    here, there = (f"{path}.{name}" for name in _BINDING_CONDITIONS)
    for item, types in ((here, wanted), (there, failures)):
        errors.extend(validate_items(item, types, _MAX_BINDING_CONDITIONS, _validate_condition_type))
    if max(len(wanted), len(failures)) <= _MAX_BINDING_CONDITIONS:
        errors.extend(_compare_conditions(here, wanted, there, failures))
    if not wanted:
        errors.append(field.invalid(here, None, "bindingConditions are required to use bindingFailureConditions"))
    if not failures:
        errors.append(field.invalid(there, None, "bindingFailureConditions are required to use bindingConditions"))
    return errors


def _compare_conditions(here: str, wanted: Sequence[str], there: str, failures: Sequence[str]) -> list[FieldError]:
    """Validate that no type is in both lists, or twice in one. `here` and `there` are their paths."""
    errors = [field.duplicate(f"{here}[{i}]", wanted[i]) for i in field.repeated(wanted)]
    for index, type_ in enumerate(failures):
        item = f"{there}[{index}]"
        if type_ in failures[:index]:
            errors.append(field.duplicate(item, type_))
        if type_ in wanted:
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            errors.append(field.invalid(item, type_, detail))
    return errors


def _validate_condition_type(path: str, type_: str) -> list[FieldError]:
    return field.invalid_for(path, type_, check_qualified_name(type_))


def validate_toleration(path: str, toleration: JsonObject) -> list[FieldError]:
    errors = []
    key, operator, value = (str(toleration.get(name, "")) for name in ("key", "operator", "value"))
    if key:
        errors.extend(field.invalid_for(f"{path}.key", key, check_qualified_name(key)))
    match operator:
        case "Exists":
            if value:
                errors.append(field.invalid(f"{path}.value", value, "must be empty for operator `Exists`"))
        case "Equal":
            errors.extend(field.invalid_for(f"{path}.value", value, check_label_value(value)))
        case "":
            errors.append(field.required(f"{path}.operator"))
        case _:
            errors.append(field.not_supported(f"{path}.operator", operator, _TOLERATION_OPERATORS))
    if effect := toleration.get("effect"):
        errors.extend(field.one_of(f"{path}.effect", effect, _EFFECTS))
    return errors


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


def validate_request_reference(path: str, name: str, names: Names) -> list[FieldError]:
    first, *others = name.split("/")
    if len(others) > 1:
        return [field.invalid(path, name, _UNKNOWN_REQUEST)]
    errors = [error for part in (first, *others) for error in validate_label_name(path, part)]
    if first not in names or any(part not in names[first] for part in others):
        errors.append(field.invalid(path, name, _UNKNOWN_REQUEST))
    return errors


def validate_claim_spec(path: str, spec: JsonObject) -> list[FieldError]:
    devices = spec.get("devices", {})
    names = request_names(devices)

    def validate_references(item: str, references: Sequence[str]) -> list[FieldError]:
        return validate_items(
            f"{item}.requests",
            references,
            _MAX_REQUESTS,
            lambda where, name: validate_request_reference(where, name, names),
            str,
        )

    def validate_constraint(item: str, constraint: JsonObject) -> list[FieldError]:
        errors = validate_references(item, constraint.get("requests", ()))
        for name in ("matchAttribute", "distinctAttribute"):
            if name in constraint:
                return [*errors, *validate_full_name(f"{item}.{name}", constraint[name])]
        detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        return [*errors, field.required(item, detail)]

    def validate_config(item: str, config: JsonObject) -> list[FieldError]:
        return validate_references(item, config.get("requests", ())) + validate_configuration(item, config)

    here = f"{path}.devices"
    return [
        *validate_items(f"{here}.requests", devices.get("requests", ()), _MAX_REQUESTS, _validate_request, name_of),
        *validate_items(f"{here}.constraints", devices.get("constraints", ()), _MAX_CONSTRAINTS, validate_constraint),
        *validate_items(f"{here}.config", devices.get("config", ()), MAX_CONFIGS, validate_config),
    ]


def _validate_request(path: str, request: JsonObject) -> list[FieldError]:
    errors = validate_label_name(f"{path}.name", name_of(request))
    alternatives, exactly = request.get("firstAvailable", ()), request.get("exactly")
    detail = "exactly one of `exactly` or `firstAvailable` is required"
    if alternatives and exactly is not None:
        errors.append(field.invalid(path, None, f"{detail}, but multiple fields are set"))
    elif alternatives:
        errors.extend(
            validate_items(f"{path}.firstAvailable", alternatives, _MAX_SUBREQUESTS, _validate_alternative, name_of)
        )
    elif exactly is not None:
        errors.extend(_validate_exact(f"{path}.exactly", exactly))
    else:
        errors.append(field.required(path, detail))
    return errors


def _validate_alternative(path: str, request: JsonObject) -> list[FieldError]:
    return validate_label_name(f"{path}.name", name_of(request)) + _validate_exact(path, request)


def _validate_exact(path: str, request: JsonObject) -> list[FieldError]:
    class_name = request.get("deviceClassName", "")
    errors = (
        field.invalid_for(f"{path}.deviceClassName", class_name, check_dns1123_subdomain(class_name))
        if class_name
        else [field.required(f"{path}.deviceClassName")]
    )
    errors.extend(validate_selectors(f"{path}.selectors", request.get("selectors", ())))
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode == "All" and count:
        detail = "must not be specified when allocationMode is 'All'"
        errors.append(field.invalid(f"{path}.count", count, detail))
    elif mode == "ExactCount" and count <= 0:
        errors.append(field.invalid(f"{path}.count", count, "must be greater than zero"))
    elif mode not in _ALLOCATION_MODES:
        errors.append(field.not_supported(f"{path}.allocationMode", mode, _ALLOCATION_MODES))
    for index, toleration in enumerate(request.get("tolerations", ())):
        errors.extend(validate_toleration(f"{path}.tolerations[{index}]", toleration))
    return errors

"""Construction of `FieldError`s with Kubernetes' texts.

`path` is the full path of the field, such as `spec.ports[0].nodePort`. Pure: no I/O, no clock, no randomness.
Source: `k8s.io/apimachinery/pkg/util/validation/field`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec

from bridgehead.apiserver.field import IMMUTABLE as IMMUTABLE
from bridgehead.apiserver.field import Field, FieldError
from bridgehead.apiserver.field import internal_value as internal_value
from bridgehead.apiserver.field import repeated as repeated
from bridgehead.apiserver.field import show_value as _value

Arguments = ParamSpec("Arguments")


def required(path: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", path, f"Required value: {detail}" if detail else "Required value")


def invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", path, f"Invalid value: {_value(value)}: {detail}")


def invalid_as_whole(path: str, detail: str) -> FieldError:
    """Return an error about a value that is not shown."""
    return FieldError("FieldValueInvalid", path, f"Invalid value: {detail}")


def invalid_for(path: str, value: Any, reasons: Sequence[str]) -> list[FieldError]:
    """Return one error for each reason that a `check_x` function returned."""
    return [invalid(path, value, reason) for reason in reasons] if reasons else []


def required_valid(path: str, value: str, check: Callable[[str], Sequence[str]]) -> list[FieldError]:
    """Return an error for an absent value, else one for each reason that `check` returns."""
    return invalid_for(path, value, check(value)) if value else [required(path)]


def duplicate(path: str, value: Any, detail: str = "") -> FieldError:
    text = f"Duplicate value: {_value(value)}"
    return FieldError("FieldValueDuplicate", path, f"{text}: {detail}" if detail else text)


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", path, f"Forbidden: {detail}")


def not_supported(path: str, value: Any, supported: Sequence[str]) -> FieldError:
    values = ", ".join(_value(one) for one in supported)
    return FieldError("FieldValueNotSupported", path, f"Unsupported value: {_value(value)}: supported values: {values}")


def not_found(path: str, value: Any) -> FieldError:
    return FieldError("FieldValueNotFound", path, f"Not found: {_value(value)}")


def too_long(path: str, limit: int) -> FieldError:
    unit = "byte" if limit == 1 else "bytes"
    return FieldError("FieldValueTooLong", path, f"Too long: may not be more than {limit} {unit}")


def too_many(path: str, actual: int, limit: int) -> FieldError:
    items = "item" if limit == 1 else "items"
    return FieldError("FieldValueTooMany", path, f"Too many: {actual}: must have at most {limit} {items}")


def internal(path: str, detail: str) -> FieldError:
    return FieldError("InternalError", path, f"Internal error: {detail}")


def one_of(path: str, value: Any, supported: Sequence[str]) -> list[FieldError]:
    """Return an error unless `value` is one of `supported`."""
    return [] if value in supported else [not_supported(path, value, supported)]


def only_one(path: str, given: Sequence[str], what: str) -> list[FieldError]:
    """Return errors unless exactly one of several exclusive fields is `given`. `what` describes such a field."""
    if not given:
        return [required(path, f"must specify a {what}")]
    return [forbidden(f"{path}.{name}", f"may not specify more than 1 {what}") for name in given[1:]]


def non_negative(path: str, value: int) -> list[FieldError]:
    return [] if value >= 0 else [invalid(path, value, "must be greater than or equal to 0")]


def within(path: str, value: int, low: int, high: int) -> list[FieldError]:
    return [] if low <= value <= high else [invalid(path, value, f"must be between {low} and {high}, inclusive")]


def errors_below(
    path: str,
    validate: Callable[Concatenate[Field, Arguments], object],
    value: Any,
    *arguments: Arguments.args,
    **options: Arguments.kwargs,
) -> list[FieldError]:
    """Return the errors that `validate` finds in the value at a path."""
    root = Field(value, path)
    validate(root, *arguments, **options)
    return root.errors

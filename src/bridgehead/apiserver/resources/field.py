"""Building `FieldError`s in Kubernetes' own words (source: `k8s.io/apimachinery/pkg/util/validation/field`).

Called by every validator under `resources/`. `path` is the full path of the field as the API prints it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from bridgehead.apiserver.resource import FieldError

IMMUTABLE = "field is immutable"


def _value(value: Any) -> str:
    """A value as the API prints it: compact JSON, which quotes strings and nothing else."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def required(path: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", path, f"Required value: {detail}" if detail else "Required value")


def invalid(path: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", path, f"Invalid value: {_value(value)}: {detail}")


def invalid_for(path: str, value: Any, reasons: Iterable[str]) -> list[FieldError]:
    """One error for each reason of a `check_x` in `objects.names`."""
    return [invalid(path, value, reason) for reason in reasons]


def duplicate(path: str, value: Any) -> FieldError:
    return FieldError("FieldValueDuplicate", path, f"Duplicate value: {_value(value)}")


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", path, f"Forbidden: {detail}")


def not_supported(path: str, value: Any, supported: Sequence[str]) -> FieldError:
    words = ", ".join(_value(word) for word in supported)
    return FieldError("FieldValueNotSupported", path, f"Unsupported value: {_value(value)}: supported values: {words}")


def not_found(path: str, value: Any) -> FieldError:
    return FieldError("FieldValueNotFound", path, f"Not found: {_value(value)}")


def too_long(path: str, limit: int) -> FieldError:
    return FieldError("FieldValueTooLong", path, f"Too long: may not be more than {limit} bytes")


def too_many(path: str, actual: int, limit: int) -> FieldError:
    items = "item" if limit == 1 else "items"
    return FieldError("FieldValueTooMany", path, f"Too many: {actual}: must have at most {limit} {items}")


def internal(path: str, detail: str) -> FieldError:
    return FieldError("InternalError", path, f"Internal error: {detail}")


def one_of(path: str, value: Any, supported: Sequence[str]) -> list[FieldError]:
    """No error when `value` is one of `supported`."""
    return [] if value in supported else [not_supported(path, value, supported)]


def only_one(path: str, given: Sequence[str], what: str) -> list[FieldError]:
    """No error when exactly one field of those that exclude each other is `given`; `what` each of them is."""
    if not given:
        return [required(path, f"must specify a {what}")]
    return [forbidden(f"{path}.{name}", f"may not specify more than 1 {what}") for name in given[1:]]


def non_negative(path: str, value: int) -> list[FieldError]:
    return [] if value >= 0 else [invalid(path, value, "must be greater than or equal to 0")]


def within(path: str, value: int, low: int, high: int) -> list[FieldError]:
    return [] if low <= value <= high else [invalid(path, value, f"must be between {low} and {high}, inclusive")]

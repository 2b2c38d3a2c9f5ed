"""FieldErrors of values, with the texts of kube-openapi; the API server makes them causes of a 422.

A path is empty for errors that have no field; `at_fields` gives them one.

Pure: no I/O, no clock, no randomness.
Source: kube-openapi/pkg/validation/errors/schema.go; apiextensions-apiserver/pkg/apiserver/validation/validation.go.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from bridgehead.apiserver.field import Field, FieldError
from bridgehead.apiserver.go_values import number_text

from .paths import NO_FIELD, Path, child

Errors = list[FieldError]


class Report(list[FieldError]):
    """Errors of one validation of values.

    `changed` are the ids of the paths of values that contain a changed part: these need no comparison.
    """

    __slots__ = ("changed",)

    def __init__(self, changed: set[int] | None = None) -> None:
        super().__init__()
        self.changed: set[int] = set() if changed is None else changed

    def fork(self) -> Report:
        """Return an empty report on the same values, for an alternative."""
        return Report(self.changed)


# Checks a value at a path: (value, old value or ABSENT, path, errors to append to) -> parts that passed.
Check = Callable[[Any, Any, Path, Report], int]

# A list of a million wrong items must not become a million errors. Kubernetes has no limit.
MAX_ERRORS = 1000


# After errors of these kinds, rules would fail for reasons that help nobody.
BLOCKING = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
NOT_CHECKED = Field(None, NO_FIELD).invalid(
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def quote(text: str) -> str:
    """Quote a text as Go's %q does for printable text."""
    return json.dumps(text, ensure_ascii=False)


def wrong_type(name: str, wanted: str, got: str) -> FieldError:
    """A value of another type. `got` is the type's name, or the value itself if it does not have the wanted format."""
    return Field(got, name).wrong_type(f"{name} in body must be of type {wanted}: {quote(got)}")


def failed(name: str, value: Any, text: str) -> FieldError:
    return invalid(name, value, f"{name} in body {text}")


def invalid(name: str, value: Any, text: str) -> FieldError:
    if type(value) is float:
        return Field(value, name).invalid_as_whole(f"{number_text(value)}: {text}")
    return Field(value, name).invalid(text)


def unsupported(name: str, value: Any, supported: Sequence[Any]) -> FieldError:
    """A value that is not in `enum`."""
    texts = [one if isinstance(one, str) else json.dumps(one, separators=(",", ":")) for one in supported]
    error = Field(value, name).not_supported(texts)
    if type(value) is not float:
        return error
    _, _, rest = error.message.partition(": supported values: ")
    return replace(error, message=f"Unsupported value: {number_text(value)}: supported values: {rest}")


def failed_choice(name: str, text: str) -> FieldError:
    """An error of anyOf, oneOf, allOf or not, without a field; its text names one."""
    return Field("").invalid(f"{quote(name)} must {text}")


def at_fields(errors: Iterable[FieldError], prefix: str = "") -> list[FieldError]:
    """Return errors below `prefix`, each once."""
    unique = dict.fromkeys(errors)
    if prefix:
        return [replace(error, field=child(prefix, error.field) if error.field else prefix) for error in unique]
    return [error if error.field else replace(error, field=NO_FIELD) for error in unique]

"""Validation of the names of a custom resource.

Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver `ValidateCustomResourceDefinitionNames`.
"""

from __future__ import annotations

from collections.abc import Iterable

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.objects.names import check_dns1035_label

_MIXED = "may have mixed case, but should otherwise match: "


def joined(reasons: Iterable[str]) -> str:
    return ",".join(reasons)


def validate_required_names(names: JsonObject) -> list[FieldError]:
    """Validate that `spec.names` has all names that are not optional."""
    return [
        field.required(f"spec.names.{name}")
        for name in ("plural", "singular", "kind", "listKind")
        if not names.get(name)
    ]


def validate_names(path: str, names: JsonObject) -> list[FieldError]:
    """Validate the names that are there."""
    errors = []
    for name in ("plural", "singular"):
        errors += _validate(f"{path}.{name}", names.get(name, ""))
    kind, list_kind = names.get("kind", ""), names.get("listKind", "")
    errors += _validate_kind(f"{path}.kind", kind) + _validate_kind(f"{path}.listKind", list_kind)
    for index, name in enumerate(names.get("shortNames") or ()):
        errors += _validate(f"{path}.shortNames[{index}]", name, may_be_empty=False)
    if kind and kind == list_kind:
        errors.append(field.invalid(f"{path}.listKind", list_kind, "kind and listKind may not be the same"))
    for index, name in enumerate(names.get("categories") or ()):
        errors += _validate(f"{path}.categories[{index}]", name, may_be_empty=False)
    return errors


def _validate(path: str, name: str, *, may_be_empty: bool = True) -> list[FieldError]:
    reasons = [] if may_be_empty and not name else check_dns1035_label(name)
    return [field.invalid(path, name, joined(reasons))] if reasons else []


def _validate_kind(path: str, kind: str) -> list[FieldError]:
    reasons = check_dns1035_label(kind.lower()) if kind else []
    return [field.invalid(path, kind, _MIXED + joined(reasons))] if reasons else []

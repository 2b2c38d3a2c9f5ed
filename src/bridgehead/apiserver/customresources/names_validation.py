"""Validation of the names of a custom resource.

Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver `ValidateCustomResourceDefinitionNames`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import Field
from bridgehead.objects.names import check_dns1035_label

_MIXED = "may have mixed case, but should otherwise match: "


def validate_names(names: Field) -> None:
    """Validate the names that are there."""
    kind, list_kind = names.at("kind"), names.at("listKind")
    for name in (names.at("plural"), names.at("singular")):
        if name:
            name.must_pass(check_label)
    for name in (kind, list_kind):
        if name:
            name.must_pass(_check_kind)
    for short_name in names.at("shortNames").each():
        short_name.must_pass(check_label)
    if kind and kind.value == list_kind.value:
        list_kind.invalid("kind and listKind may not be the same")
    for category in names.at("categories").each():
        category.must_pass(check_label)


def check_label(name: str) -> list[str]:
    return in_one(check_dns1035_label(name))


def _check_kind(kind: str) -> list[str]:
    return in_one(check_dns1035_label(kind.lower()), _MIXED)


def in_one(reasons: Sequence[str], before: str = "") -> list[str]:
    """Return the reasons of a check as one, after a text."""
    return [before + ",".join(reasons)] if reasons else []

"""The fields of a custom resource that field selectors may name.

Pure: no I/O, no clock, no randomness.
Source: apiextensions-apiserver/pkg/registry/customresource/strategy.go (selectableFields).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from bridgehead.apiserver.resource import JsonObject

from .jsonpath import field_names, value_at


def selectable_fields(version: JsonObject) -> Mapping[str, Callable[[JsonObject], str]]:
    """Return the selectable fields of a definition's version, such as `spec.host`, and functions that read them.

    Raises ValueError for a path that is none.
    """
    return dict(map(_selectable, version.get("selectableFields") or ()))


def _selectable(selectable: JsonObject) -> tuple[str, Callable[[JsonObject], str]]:
    path = selectable["jsonPath"]
    return path.removeprefix("."), partial(_selected, field_names(path))


def _selected(names: tuple[str, ...], obj: JsonObject) -> str:
    value = value_at(obj, names)
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)

"""Printer columns of custom resources.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/registry/customresource/tableconvertor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridgehead.apiserver.resource import Cell, Column, JsonObject
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, since
from bridgehead.apiserver.shapes import EXPONENT_FROM

from .jsonpath import Find, as_text, compile_path

_DEFAULT: tuple[JsonObject, ...] = (
    {
        "name": "Age",
        "type": "date",
        "description": AGE.description,
        "jsonPath": ".metadata.creationTimestamp",
    },
)


def printer_columns(definitions: Sequence[JsonObject]) -> tuple[Column, ...]:
    """Return the columns of a version: its name, and those that the version defines, or the age if it defines none.

    As in Kubernetes, a path that cannot be read ends the columns.
    """
    columns = [NAME]
    for definition in definitions or _DEFAULT:
        path = definition.get("jsonPath", "")
        try:
            find = compile_path(path)
        except ValueError:
            break
        columns.append(
            Column(
                definition.get("name", ""),
                _Cell(find, definition.get("type", "")),
                type=definition.get("type", ""),
                format=definition.get("format", ""),
                description=definition.get("description")
                or f"Custom resource definition column (in JSONPath format): {path}",
                priority=definition.get("priority", 0),
            )
        )
    return tuple(columns)


class _Cell:
    """A cell with the first value at a path, None if there is none of the column's type."""

    def __init__(self, find: Find, type: str) -> None:
        self._find = find
        self._type = type

    def __call__(self, obj: JsonObject, now: float) -> Cell:
        found = self._find(obj)
        return typed_cell(found[0], self._type, now) if found else None


def typed_cell(value: Any, type: str, now: float) -> Cell:
    """Return the cell for a value in a column of a type; None if the value does not have it."""
    match type:
        case "string":
            return as_text(value)
        case "integer" if _is_number(value):
            return int(value)
        case "number" if _is_number(value):
            return int(value) if abs(value) < EXPONENT_FROM and value == int(value) else value
        case "boolean" if isinstance(value, bool):
            return value
        case "date" if isinstance(value, str):
            return _age(value, now)
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _age(value: str, now: float) -> str:
    text = since(value, now)
    return "<invalid>" if value and text == "<unknown>" else text

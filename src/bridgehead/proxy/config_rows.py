"""Fields of a section of the configuration, each written once: the fields of a dataclass, whose defaults are rows.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from bridgehead.objects.times import parse_duration

from .config_reader import Section

T = TypeVar("T")


class Setting(NamedTuple):
    """A row: the name of the field, its default as a file writes it, and the function that reads it."""

    name: str
    written: object
    read: Callable[[Section, str], object]


def setting(name: str, written: object, default: object, read: Callable[[Section, str], object]) -> Any:
    """Return a row with the default of the dataclass."""
    return dataclasses.field(default=default, metadata={"setting": Setting(name, written, read)})


def flag(name: str) -> Any:
    return setting(name, False, False, Section.flag)


def number(name: str, default: int, lowest: int, highest: int) -> Any:
    return setting(name, default, default, lambda section, name: section.number(name, default, lowest, highest))


def seconds(name: str, written: str) -> Any:
    """Return the row of a duration in Go's format, which the dataclass has in whole seconds."""
    default = int(parse_duration(written))
    return setting(name, written, default, lambda section, name: int(section.seconds(name, default)))


def read(kind: type[T], section: Section) -> T:
    """Return a section as a value of its dataclass. Raises ConfigInvalid for the first invalid field."""
    rows = {field.name: field.metadata["setting"] for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**{attribute: row.read(section, row.name) for attribute, row in rows.items()})


def defaults_of(kind: type) -> dict[str, object]:
    """Return a section with the defaults of its fields, sorted by name, as a file writes it."""
    rows = [field.metadata["setting"] for field in dataclasses.fields(kind)]
    return {row.name: row.written for row in sorted(rows)}

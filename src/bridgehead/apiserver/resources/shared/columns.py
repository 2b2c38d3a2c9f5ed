"""Cells and columns of `kubectl get`: ages, labels, selectors, shortened lists; fields for field selectors.

No function raises for an object that agrees with the schema: an invalid date shows as `<unknown>`, a selector with an
unknown operator as `<error>`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `pkg/printers/internalversion`, `k8s.io/apimachinery/pkg/util/duration`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bridgehead.apiserver.resource import Column, JsonObject
from bridgehead.objects.times import parse_time

from .metadata_validation import selector_text

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"
_SHOWN_ITEMS = 3  # of a list in a cell

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 24 * 3600, 365 * 24 * 3600


def human_duration(seconds: float) -> str:
    """Render a duration in at most two units: `3s`, `2m10s`, `15m`, `5h20m`, `3d4h`, `400d`, `2y30d`."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two_units(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two_units(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two_units(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two_units(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two_units(seconds: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large}{large_unit}" + (f"{rest}{small_unit}" if rest else "")


def seconds_of(timestamp: str | None) -> float | None:
    """Return seconds since the epoch, or None without a valid time."""
    if not timestamp:
        return None
    try:
        return parse_time(timestamp)
    except (ValueError, OverflowError):
        return None


def since(timestamp: str | None, now: float) -> str:
    """Render the time since `timestamp`, `<unknown>` without a valid time."""
    moment = seconds_of(timestamp)
    return UNKNOWN if moment is None else human_duration(now - moment)


def format_labels(labels: Mapping[str, str] | None) -> str:
    """Render labels as `a=b,c=d`, sorted by key."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def format_label_selector(selector: JsonObject | None) -> str:
    """Render a label selector; see `selector_text`."""
    if selector is None:
        return NONE
    try:
        return selector_text(selector) or NONE
    except ValueError:
        return "<error>"


def shorten(items: Sequence[str], empty: str) -> str:
    """Render the first three items and the number of further ones."""
    text = ",".join(items[:_SHOWN_ITEMS])
    if len(items) > _SHOWN_ITEMS:
        return f"{text} + {len(items) - _SHOWN_ITEMS} more..."
    return text or empty


def name_cell(obj: JsonObject, now: float) -> str:
    return str(obj.get("metadata", {}).get("name", ""))


def age_cell(obj: JsonObject, now: float) -> str:
    return since(obj.get("metadata", {}).get("creationTimestamp"), now)


NAME = Column("Name", name_cell, format="name", description="Name must be unique within a namespace.")
AGE = Column("Age", age_cell, description="CreationTimestamp is the server time when this object was created.")


def text_column(name: str, *path: str, empty: str = "", priority: int = 0) -> Column:
    """Return a column with the text at `path`, or `empty` without one."""

    def cell(obj: JsonObject, now: float) -> str:
        return str(at(obj, *path) or empty)

    return Column(name, cell, priority=priority)


def boolean_column(name: str, *path: str, type: str = "boolean") -> Column:
    """Return a column with the boolean at `path`; an absent one is false."""
    return Column(name, lambda obj, now: bool(at(obj, *path)), type=type)


def number_column(name: str, *path: str, default: int = 0, type: str = "integer") -> Column:
    """Return a column with the number at `path`."""

    def cell(obj: JsonObject, now: float) -> int:
        value = at(obj, *path)
        return int(value) if isinstance(value, (int, float)) else default

    return Column(name, cell, type=type)


def at(obj: Any, *path: str) -> Any:
    """Return the value at `path`, or None if a part of the path is missing."""
    for key in path:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(key)
    return obj


def selectable(*path: str, default: str = "") -> Callable[[JsonObject], str]:
    """Return a function for field selectors that reads the value at `path` as text (booleans: `true`, `false`)."""

    def read(obj: JsonObject) -> str:
        value = at(obj, *path)
        if value is None:
            return default
        return str(value).lower() if isinstance(value, bool) else str(value)

    return read


def template_columns(selector: Callable[[JsonObject], str]) -> tuple[Column, ...]:
    """Return the wide columns of a resource with a pod template."""

    def containers(obj: JsonObject) -> Iterable[JsonObject]:
        return at(obj, "spec", "template", "spec", "containers") or ()

    def names(obj: JsonObject, now: float) -> str:
        return ",".join(str(container.get("name", "")) for container in containers(obj))

    def images(obj: JsonObject, now: float) -> str:
        return ",".join(str(container.get("image", "")) for container in containers(obj))

    return (
        Column("Containers", names, priority=1),
        Column("Images", images, priority=1),
        Column("Selector", lambda obj, now: selector(obj), priority=1),
    )

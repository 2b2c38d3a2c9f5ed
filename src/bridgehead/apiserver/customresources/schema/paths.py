"""Paths of values, built while a walk goes down and rendered only for an error.

Pure: no I/O, no clock, no randomness. Source: apimachinery/pkg/util/validation/field/path.go.
"""

from __future__ import annotations

# The path of a value, from the inside out: (outer path, step). A step is a field, a map's key, or an index of a list.
Path = tuple["Path", str | int] | None

# Go's text for a path that does not exist. Errors that no field has are shown with it.
NO_FIELD = "<nil>"


def dotted(path: Path) -> str:
    """Render a path as value checks and field validation do, with map keys like fields: `spec.limits.cpu[0]`."""
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(f"[{step}]" if type(step) is int else f".{step}")
    return "".join(reversed(steps)).removeprefix(".")


def child(path: str, name: str) -> str:
    """Return the path of a field."""
    return f"{path}.{name}" if path else name


def key(path: str, name: str) -> str:
    """Return the path of a map's value, or of a schema in `properties`: `spec.limits[cpu]`."""
    return f"{path}[{name}]"

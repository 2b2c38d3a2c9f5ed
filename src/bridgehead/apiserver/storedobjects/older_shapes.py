"""Shapes of older versions of kinds, made of those of the present version.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy

from bridgehead.apiserver.shapes import ListShape, MapShape, Shape, StructShape


def changed_shape(
    shape: Shape, fields: Mapping[str, Shape], *, drop: Iterable[str] = (), definition: str = ""
) -> StructShape:
    """Return a struct's shape with other `fields`, and without those of `drop`.

    `definition` is the message whose field numbers count; "": those of `shape`.
    """
    if not isinstance(shape, StructShape):
        raise TypeError(f"{shape.go} has no fields")
    other = copy(shape)
    if definition:
        other.definition = definition
    other.fields = {name: one for name, one in shape.fields.items() if name not in drop} | dict(fields)
    # Lists and maps that are empty are left out; what a check of earlier objects has compiled is another shape's.
    other.omitted = shape.omitted | {name for name, one in fields.items() if isinstance(one, ListShape | MapShape)}
    other.exact = other.decoder = None
    other.uses = 0
    return other


def item_shape(shape: Shape, field: str) -> StructShape:
    """Return the shape of the items of a list of structs."""
    items = shape.fields[field].items
    if not isinstance(items, StructShape):
        raise TypeError(f"{field} is no list of structs")
    return items

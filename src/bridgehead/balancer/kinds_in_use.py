"""The kinds of configuration objects of which there are any, which the controller publishes for the speakers.

A speaker follows these only: most clusters use three or four of the eleven kinds, and a watch costs as much without
objects. They are in an annotation of the speakers' Secret. Without it (a controller of an earlier version), a speaker
follows all kinds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, Final

from bridgehead.objects.kinds import Kind

# The annotation of a new Secret, until the controller has read the objects.
NOT_READ: Final = "?"


def kind_name(kind: Kind[Any]) -> str:
    """Return the name of a kind in the annotation, as a CustomResourceDefinition would have it."""
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def format_kinds(names: Collection[str]) -> str:
    """Return the annotation's value."""
    return ",".join(sorted(names))


class KindsInUse:
    """The kinds as they were published last.

    `is_awaited`: nothing was published yet, and there is no Secret, or a new one: the controller will publish them.
    """

    def __init__(self) -> None:
        self._names: frozenset[str] | None = None  # None: all
        self.is_known = self.is_awaited = False
        self.changed = asyncio.Event()

    @property
    def are_all(self) -> bool:
        """Whether the controller does not publish them."""
        return self.is_known and self._names is None

    def __contains__(self, kind: Kind[Any]) -> bool:
        return self.is_known and (self._names is None or kind_name(kind) in self._names)

    def set_annotation(self, value: str | None) -> None:
        """Take the annotation of the Secret, None if it has none. A new Secret changes nothing that is known."""
        if value == NOT_READ:
            self.await_controller()
        else:
            self._names = None if value is None else frozenset(filter(None, value.split(",")))
            self.is_known, self.is_awaited = True, False
            self.changed.set()

    def await_controller(self) -> None:
        """There is no Secret."""
        self.is_awaited = not self.is_known

"""Errors of field management.

    FieldManagementError
        BadConfiguration     an applied configuration that does not fit the object's type
        Conflicts            other managers own fields that the configuration changes

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class FieldManagementError(Exception):
    """Base of the errors of this package."""


class BadConfiguration(FieldManagementError):
    """The configuration does not fit the type. The text is that of the real server."""


class Conflict(NamedTuple):
    """One field that another manager owns.

    `manager` is the owner as messages name it (`"kubectl-scale" with subresource "scale" using apps/v1`); `path` is the
    field, as the steps of `path_steps.py`.
    """

    manager: str
    path: tuple[str, ...]


class Conflicts(FieldManagementError):
    """Fields whose values differ from the configuration and that other managers own."""

    def __init__(self, conflicts: Sequence[Conflict]) -> None:
        super().__init__(f"{len(conflicts)} conflicts")
        self.conflicts = tuple(conflicts)

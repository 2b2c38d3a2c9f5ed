"""Namespaces.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.objects.meta import Condition, Object, Part


class NamespaceSpec(Part, frozen=True, kw_only=True):
    finalizers: tuple[str, ...] = ()


class NamespaceStatus(Part, frozen=True, kw_only=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(Object, frozen=True, kw_only=True):
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()

"""The webhooks or policies that have a rule for a request: found once for each kind of request.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from .attributes import Attributes

_MAX_KEPT = 4096  # kinds of requests

_Candidate = TypeVar("_Candidate")


class CandidateCache(Generic[_Candidate]):
    """The results of `find`, whose rules do not depend on the names and objects of requests."""

    def __init__(self, find: Callable[[Attributes], tuple[_Candidate, ...]]) -> None:
        self._find = find
        self._kept: dict[tuple[object, ...], tuple[_Candidate, ...]] = {}

    def get(self, attributes: Attributes) -> tuple[_Candidate, ...]:
        resource = attributes.resource
        kind = resource.group, resource.version, resource.plural, attributes.subresource
        key = (attributes.operation, *kind, bool(attributes.namespace))
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            found = self._kept[key] = self._find(attributes)
        return found

    def clear(self) -> None:
        self._kept.clear()

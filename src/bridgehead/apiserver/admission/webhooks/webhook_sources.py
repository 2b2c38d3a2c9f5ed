"""The webhooks of the stored configurations, and those that may be for a request.

Configurations are read from the store with each request, so that a webhook counts from the moment in which its
configuration is stored. They are parsed when they have changed.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from bridgehead.apiserver.admission.attributes import Attributes
from bridgehead.apiserver.admission.candidates import CandidateCache
from bridgehead.apiserver.admission.matching import equivalent_resources, find_resource, is_exempt
from bridgehead.apiserver.resource import Resource
from bridgehead.apiserver.table import ResourceTable
from bridgehead.storage import Record, Store

from .hooks import Hook, parse_hooks


@dataclass(frozen=True, slots=True)
class Candidate:
    """A webhook whose rules match a request as one for `resource`. `index` is the hook's place among all hooks."""

    hook: Hook
    resource: Resource
    index: int


class HookSource:
    """The webhooks of one kind of configuration, ordered by the names of their configurations."""

    def __init__(self, store: Store, resource: str, table: ResourceTable) -> None:
        self._store = store
        self._resource = resource
        self._table = table
        self._records: list[Record] = []
        self._table_revision = -1
        self._hooks: list[Hook] = []
        self._candidates = CandidateCache(self._find)

    def candidates(self, attributes: Attributes) -> tuple[Candidate, ...]:
        """Return the webhooks with a rule for the request."""
        records = self._store.list(self._resource)
        if not records or is_exempt(attributes):
            return ()
        # Lists compare their elements by identity first; a stored record does not change.
        if records != self._records or self._table.revision != self._table_revision:
            self._parse(records)
        return self._candidates.get(attributes)

    def _parse(self, records: list[Record]) -> None:
        if records != self._records:
            self._hooks = [hook for one in records for hook in parse_hooks(msgspec.json.decode(one.value))]
        self._records, self._table_revision = records, self._table.revision
        self._candidates.clear()

    def _find(self, attributes: Attributes) -> tuple[Candidate, ...]:
        equivalents = equivalent_resources(attributes.resource, self._table)
        found = []
        for index, hook in enumerate(self._hooks):
            resource = find_resource(hook.rules, attributes, equivalents if hook.matches_equivalents else ())
            if resource is not None:
                found.append(Candidate(hook, resource, index))
        return tuple(found)

"""The stored policies with their bindings, and those that may be for a request.

Policies are read from the store with each request, so that a policy counts from the moment in which it and its binding
are stored. They are parsed when they have changed.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from bridgehead.apiserver.admission.attributes import Attributes
from bridgehead.apiserver.admission.candidates import CandidateCache
from bridgehead.apiserver.admission.matching import equivalent_resources, is_exempt
from bridgehead.apiserver.resource import Resource
from bridgehead.apiserver.table import ResourceTable
from bridgehead.storage import Record, Store

from .policy_objects import Binding, Policy, parse_binding, parse_policy


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy whose rules match a request, whatever its object. `equivalents` are the request's other resources."""

    policy: Policy
    bindings: tuple[Binding, ...]
    equivalents: tuple[Resource, ...]


class PolicySource:
    """The policies of one kind that have bindings, ordered by their names."""

    def __init__(self, store: Store, policies: str, bindings: str, table: ResourceTable) -> None:
        self._store = store
        self._ids = policies, bindings
        self._table = table
        self._records: tuple[list[Record], list[Record]] = [], []
        self._table_revision = -1
        self._policies: list[tuple[Policy, tuple[Binding, ...]]] = []
        self._candidates = CandidateCache(self._find)

    def candidates(self, attributes: Attributes) -> tuple[Candidate, ...]:
        """Return the policies with a rule for the request."""
        policies = self._store.list(self._ids[0])
        if not policies or is_exempt(attributes):
            return ()
        records = policies, self._store.list(self._ids[1])
        # Lists compare their elements by identity first; a stored record does not change.
        if records != self._records or self._table.revision != self._table_revision:
            self._parse(records)
        return self._candidates.get(attributes)

    def _parse(self, records: tuple[list[Record], list[Record]]) -> None:
        if records != self._records:
            known = {policy.name: policy for policy, _ in self._policies}
            bound: dict[str, list[Binding]] = {}
            for record in records[1]:
                binding = parse_binding(msgspec.json.decode(record.value))
                bound.setdefault(binding.policy, []).append(binding)
            self._policies = []
            for record in records[0]:
                if bindings := bound.get(record.key.name):
                    policy = _policy(record, known.get(record.key.name))
                    self._policies.append((policy, tuple(bindings)))
        self._records, self._table_revision = records, self._table.revision
        self._candidates.clear()

    def _find(self, attributes: Attributes) -> tuple[Candidate, ...]:
        equivalents = tuple(equivalent_resources(attributes.resource, self._table))
        return tuple(
            Candidate(policy, bindings, equivalents)
            for policy, bindings in self._policies
            if policy.match.finds_rule(attributes, equivalents)
        )


def _policy(record: Record, known: Policy | None) -> Policy:
    """Return the policy of a record: the known one if its spec is the same, since that one is compiled."""
    policy = parse_policy(msgspec.json.decode(record.value))
    if known is None or known.spec != policy.spec or known.obj["metadata"]["uid"] != policy.obj["metadata"]["uid"]:
        return policy
    return known

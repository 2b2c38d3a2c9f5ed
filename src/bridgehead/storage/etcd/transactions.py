"""The transactions in which a store on etcd writes: what they compare, and what they change.

A write is one transaction with its claims and companions. It compares what the write was checked against: the revisions
of the object and of companions that it updates or that have to be unchanged, that new companions and claims do not
exist, and that its fence is open. If a comparison fails, etcd answers with the entries of claims.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bridgehead.storage.records import Delete, Record, Unchanged, Update, Write

from .claims import claim_key
from .client.messages_pb2 import Compare, RequestOp
from .client.records import KeyValue, RangeResult, TxnResult
from .client.requests import delete, get, mod_revision_equals, put
from .layout import Layout
from .stored_form import StoredForm

# etcd refuses transactions with more operations (--max-txn-ops, 128). A Service with more node ports takes the first
# ones in transactions of their own: their entries are stale until the Service is written.
MOST_CLAIMS = 100


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction. `lookups` are carried out when it fails, for the entries of the claims that it takes."""

    compares: Sequence[Compare]
    operations: Sequence[RequestOp]
    lookups: Sequence[RequestOp]
    entries: Mapping[bytes, str]

    def found_claims(self, result: TxnResult) -> Mapping[str, int]:
        """Return the revision of each claim's entry after the transaction has failed, 0 for one that is not there."""
        found = {self.entries[kv.key]: kv.mod_revision for kv in found_keys(result)}
        return dict.fromkeys(self.entries.values(), 0) | found


@dataclass(slots=True)
class Plan:
    """A write as etcd will see it.

    `current` is the object before the write. `stored` has the write and its companions with their new values, None for
    what is deleted. `taken` are the claims that the object gets, with the revision at which the entry of each is
    expected: 0, or that of a stale one. `unchanged` are conditions. `released` are the claims that it no longer holds.
    `fence` is a comparison of each transaction (`fences`).
    """

    layout: Layout
    current: Record | None
    stored: Sequence[tuple[Write, bytes | None]]
    unchanged: Sequence[Unchanged]
    lease: int
    taken: Sequence[tuple[str, int]]
    released: Sequence[str]
    fence: Compare

    def transactions(self) -> Iterator[Transaction]:
        """Yield the transactions in their order. The last one is the write itself."""
        first = max(0, len(self.taken) - MOST_CLAIMS)
        for i in range(0, first, MOST_CLAIMS):
            yield self._transaction([], [], self.taken[i : min(first, i + MOST_CLAIMS)])
        (write, value), *others = self.stored
        key = self.layout.etcd_key(write.key)
        compares = [mod_revision_equals(key, 0 if self.current is None else self.current.revision)]
        operations = [delete(key) if value is None else put(key, value, lease=self.lease)]
        for other, value in others:
            key = self.layout.etcd_key(other.key)
            if value is None:
                operations.append(delete(key))
            else:
                compares.append(mod_revision_equals(key, other.expected if isinstance(other, Update) else 0))
                operations.append(put(key, value))
        compares += [mod_revision_equals(self.layout.etcd_key(one.key), one.expected) for one in self.unchanged]
        operations += [delete(claim_key(self.layout, claim)) for claim in self.released[:MOST_CLAIMS]]
        yield self._transaction(compares, operations, self.taken[first:])

    def _transaction(
        self, compares: list[Compare], operations: list[RequestOp], taken: Sequence[tuple[str, int]]
    ) -> Transaction:
        holder = self.layout.etcd_key(self.stored[0][0].key)
        entries = [(claim_key(self.layout, claim), revision) for claim, revision in taken]
        return Transaction(
            [*compares, *(mod_revision_equals(key, revision) for key, revision in entries), self.fence],
            [*operations, *(put(key, holder) for key, _ in entries)],
            [get(key) for key, _ in entries],
            {claim_key(self.layout, claim): claim for claim, _ in taken},
        )


def found_keys(result: TxnResult) -> list[KeyValue]:
    """Return what the lookups of a failed transaction have found."""
    return [kv for answer in result.answers if isinstance(answer, RangeResult) for kv in answer.kvs]


def plan(
    layout: Layout,
    write: Write,
    current: Record | None,
    form: StoredForm,
    lease: int,
    stale: Mapping[str, int],
    fence: Compare,
) -> Plan:
    """Plan a write. `lease` is the object's in etcd, 0 without one; `stale` are entries of claims that nobody holds."""
    held = frozenset[str]() if current is None else current.facts.claims
    wanted = frozenset[str]() if isinstance(write, Delete) else write.facts.claims
    writes = (write, *(one for one in write.also if not isinstance(one, Unchanged)))
    return Plan(
        layout,
        current,
        [(one, None if isinstance(one, Delete) else form.encode(one.key, one.value)) for one in writes],
        [one for one in write.also if isinstance(one, Unchanged)],
        lease,
        [(claim, stale.get(claim, 0)) for claim in sorted(wanted - held)],
        sorted(held - wanted),
        fence,
    )

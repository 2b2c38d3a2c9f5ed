"""Values that the etcd client returns. Revisions are etcd's; keys and values are bytes.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import NamedTuple


class KeyValue(NamedTuple):
    """A key at a revision. In an event of a deletion, only `key` and `mod_revision` are set."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    version: int  # 1 after the creation
    lease: int  # 0: none


class RangeResult(NamedTuple):
    """An answer to a range: `count` keys are in the range, `more` if `kvs` is not all of them."""

    revision: int  # of etcd's store when it answered, also when the range was read at an older one
    kvs: list[KeyValue]
    more: bool
    count: int  # type: ignore[assignment]  # tuples have a method of this name


class PutAnswer(NamedTuple):
    previous: KeyValue | None  # None: there was none, or it was not asked for


class DeleteAnswer(NamedTuple):
    deleted: int
    previous: list[KeyValue]


class TxnResult(NamedTuple):
    """An answer to a transaction. `answers` are those of its operations, in order; a get's is a `RangeResult`."""

    revision: int
    succeeded: bool  # whether all comparisons held, so that the operations `success` ran
    answers: list[RangeResult | PutAnswer | DeleteAnswer]


class Status(NamedTuple):
    """The state of one member. Sizes are bytes."""

    endpoint: str
    version: str  # "3.4.23"
    db_size: int
    db_size_in_use: int
    leader: int  # member id, 0: none
    member_id: int
    cluster_id: int
    raft_term: int
    is_learner: bool
    errors: tuple[str, ...]  # alarms, and the lack of a leader
    revision: int


class Alarm(NamedTuple):
    member_id: int
    kind: str  # NOSPACE or CORRUPT


class Event(NamedTuple):
    is_delete: bool
    kv: KeyValue
    prev_kv: KeyValue | None  # None: the key was new, or the watch did not ask for it


class WatchBatch(NamedTuple):
    """Events of a watch in order; all events of one revision are in one batch.

    `is_progress`: there are no events, and the watch has delivered all events up to `revision`. Otherwise `revision` is
    the store's when etcd sent the batch: events up to it may follow.
    """

    revision: int
    events: list[Event]
    is_progress: bool

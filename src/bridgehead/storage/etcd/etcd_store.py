"""A store on etcd: the objects in memory, followed by one watch of their prefix, and every write a transaction.

Several API servers may use one etcd, and other programs may write to it. So nothing becomes visible here but through
the watch, in the order of etcd's revisions, which are the objects' resourceVersions. A write returns when this server
has seen it.

A transaction has one revision: the companions of an object have its resourceVersion.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from bridgehead.storage.content import as_of, encode
from bridgehead.storage.errors import (
    AlreadyExists,
    ClaimTaken,
    Conflict,
    NotFound,
    StoreAway,
    StoreBroken,
    ValueTooLarge,
)
from bridgehead.storage.memory import MemoryStore
from bridgehead.storage.records import (
    Change,
    Companion,
    Create,
    Delete,
    Facts,
    JsonObject,
    Key,
    Record,
    Unchanged,
    Update,
    Write,
)
from bridgehead.storage.sealing import Encryption

from .area import enter
from .claims import repair_claims
from .client import errors
from .client.errors import EtcdError
from .client.etcd_client import EtcdClient
from .client.records import Event
from .codec import ObjectCodec, Undecodable
from .compaction import compact_periodically
from .consistent_reads import Freshness
from .fences import Fence, Fences
from .foreign_keys import ForeignKeys
from .health import Health
from .layout import DEFINITIONS, Layout
from .leases import Leases
from .options import EtcdStoreOptions
from .prefix_watch import Entry, Follower
from .retries import patiently, store_error
from .server_leases import EtcdServerLeases
from .stored_form import StoredForm
from .transactions import Plan, plan

log = logging.getLogger(__name__)

# Attempts of one write, of which each fails only when another program has changed one of its keys.
_ATTEMPTS = 50
_REPAIR_SECONDS = 180.0


@dataclass(slots=True, eq=False)
class _Expected:
    """A write on its way. `stored` None: a deletion. `record` is what the watch showed, which is known by its bytes.

    `is_seen`: the object of `revision` has changed so, 0: there was none. Another server may have done that.
    """

    stored: bytes | None
    revision: int
    value: JsonObject
    facts: Facts
    record: Record | None = None
    is_seen: bool = False


class EtcdStore(MemoryStore):
    """See `store.Store`. `open_etcd_store` makes one."""

    def __init__(self, client: EtcdClient, layout: Layout, codec: ObjectCodec, options: EtcdStoreOptions) -> None:
        super().__init__(history_changes=options.history_changes, history_bytes=options.history_bytes)
        self.layout = layout
        self.servers = EtcdServerLeases(client, layout.prefix)
        self._client = client
        self._codec = codec
        self._options = options
        self._form = StoredForm(layout, codec, options.encryption)
        self._freshness = Freshness(client, layout.prefix, layout.own_prefix())
        self._health = Health(client, layout.own_prefix())
        self._leases = Leases(client)
        self._fences = Fences(client, layout.own_prefix(), self._leases.lease)
        definitions = layout.resource_prefix(DEFINITIONS)
        self._follower = Follower(client, layout.prefix, definitions, self)
        # Writes on their way, and objects that can't be decoded, by their etcd keys.
        self._expected: dict[bytes, list[_Expected]] = {}
        self.unreadable: dict[bytes, str] = {}
        self._gaps = 0  # how often changes were lost
        self._crash: str | None = None
        self._foreign_keys = ForeignKeys(layout)
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Read the objects and the newest changes, and follow etcd from there. Raises `EtcdError`, `StoreBroken`."""
        await self._client.check_endpoints()
        await enter(self._client, self.layout)
        await self._follower.load()
        self._spawn(self._follower.run())
        self._spawn(self._freshness.run(self._follower.request_progress))
        self._spawn(self._health.run())
        await self._freshness.catch_up()
        self._spawn(self._repair_claims())
        if self._options.compaction_seconds:
            self._spawn(compact_periodically(self._client, self._options.compaction_seconds))

    def _spawn(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(coroutine)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Report the end of a task, none of which ends by itself: /livez then asks for a restart."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.critical("the store on etcd has stopped", exc_info=error)
            self._crash = f"the server has to be restarted: {error!r}"

    async def close(self) -> None:
        if self._closed:
            return
        await super().close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._freshness.close()
        await self._client.close()

    # --- reading

    @property
    def failure(self) -> str | None:
        return self._crash or self._follower.failure or self._health.problem

    def is_stale(self, key: Key) -> bool:
        return key in self._form.stale

    async def catch_up(self) -> None:
        try:
            await patiently(self._freshness.catch_up)
        except EtcdError as error:
            raise store_error(error) from error

    # --- what etcd shows

    def decode(self, entry: Entry) -> Record | None:
        """Return the object of an entry; None for what is no object, and for what can't be decoded."""
        key = self.layout.object_key(entry.key)
        if key is None:
            self._foreign_keys.see(entry.key)
            return None
        return self._record(key, entry)

    def _record(self, key: Key, entry: Entry) -> Record | None:
        """Return the object of an entry; None for what can't be decoded."""
        for expected in self._expected.get(entry.key, ()):
            if expected.stored == entry.value:
                value = encode(expected.value, entry.revision)
                expected.record = Record(key, entry.revision, value, expected.facts)
                return expected.record
        try:
            obj, facts = self._form.decode(key, entry.value)
        except Exception as error:  # noqa: BLE001 - one object must not keep all others away
            why = str(error) if isinstance(error, Undecodable) else repr(error)
            if self.unreadable.get(entry.key) != why:
                name = entry.key.decode(errors="replace")
                log.error("cannot decode %s in etcd, so it is not served: %s", name, why)
            self.unreadable[entry.key] = why
            return None
        self.unreadable.pop(entry.key, None)
        return Record(key, entry.revision, encode(obj, entry.revision), facts)

    def begin(self, records: Sequence[Record], revision: int) -> None:
        self._state.load(records, revision)
        self._history.begin(revision)
        self._freshness.reached(revision)

    def exchange(self, entries: Sequence[Entry], revision: int) -> None:
        """Watchers see the difference to what was there: at most two changes of each object."""
        self._gaps += 1
        found = {entry.key: entry for entry in entries}
        changes: list[tuple[int, bytes, bytes | None]] = []
        for record in self._state.all():
            key = self.layout.etcd_key(record.key)
            entry = found.get(key)
            if entry is None:
                changes.append((revision, key, None))
            elif entry.revision == record.revision:
                del found[key]
        changes += [(entry.revision, entry.key, entry.value) for entry in found.values()]
        self._show(sorted(changes, key=lambda change: change[0]), revision)

    def show(self, events: Sequence[Event], revision: int) -> None:
        self._show([(e.kv.mod_revision, e.kv.key, None if e.is_delete else e.kv.value) for e in events], revision)

    def _show(self, events: Sequence[tuple[int, bytes, bytes | None]], revision: int) -> None:
        changes: list[Change] = []
        for modified, key, value in events:
            change = self._change(modified, key, value)
            if change is not None:
                self._state.apply((change,))
                changes.append(change)
        self._state.revision = max(self._state.revision, revision)
        if changes:
            self._history.publish(changes)
        self._freshness.reached(self._state.revision)

    def _change(self, revision: int, etcd_key: bytes, value: bytes | None) -> Change | None:
        """Return what an event does to an object; None if it is about something else."""
        key = self.layout.object_key(etcd_key)
        if key is None:
            self._foreign_keys.see(etcd_key)
            return None
        current = self._state.get(key)
        before = 0 if current is None else current.revision
        for expected in self._expected.get(etcd_key, ()):
            if expected.revision == before and expected.stored == value:
                expected.is_seen = True
        record = None if value is None else self._record(key, Entry(etcd_key, value, revision))
        if record is not None:
            return Change("ADDED" if current is None else "MODIFIED", record, current)
        if value is None:
            self.unreadable.pop(etcd_key, None)
            self._form.stale.discard(key)
        return None if current is None else Change("DELETED", as_of(current, revision), current)

    # --- writing

    async def _write(self, write: Write) -> Record:
        self._check_open()
        began = time.perf_counter()
        stale: dict[str, int] = {}
        try:
            for _ in range(_ATTEMPTS):
                record = await patiently(partial(self._attempt, write, stale))
                if record is not None:
                    self.on_commit(time.perf_counter() - began)
                    return record
        except EtcdError as error:
            raise store_error(error) from error
        raise Conflict(f"{_name(write.key)} changes as fast as it is written")

    async def _attempt(self, write: Write, stale: dict[str, int]) -> Record | None:
        """Carry out a write; None: another one was faster, which the next attempt sees. Raises errors of both.

        `stale` has the revisions of claims' entries that were there before. What no object holds is taken over.
        """
        current, fence, gaps = self._checked(write), self._fences.current, self._gaps
        lease = await self._leases.lease(self._options.lifetimes.get(write.key.resource, 0))
        planned = plan(self.layout, write, current, self._form, lease, stale, fence.is_open)
        _check_size(write, planned)
        with self._expecting(planned) as expected:
            for transaction in planned.transactions():
                try:
                    result = await self._client.txn(transaction.compares, transaction.operations, transaction.lookups)
                except errors.OutcomeUnknown:
                    is_over = await self._is_over(fence)
                    # A new object is surely this write's, by its uid: two servers may replace or delete an object in
                    # the same way.
                    if isinstance(write, Create) and expected.record is not None:
                        return expected.record
                    if not is_over or expected.is_seen or self._gaps != gaps:
                        raise
                    return None
                try:
                    await self._freshness.wait_for(result.revision)
                except StoreAway:
                    if not result.succeeded:
                        raise
                    # A write that etcd has acknowledged is done, whenever this server sees it.
                if not result.succeeded:
                    stale.update(transaction.found_claims(result))
                    return None
        if isinstance(write, Delete):
            return None if current is None else as_of(current, result.revision)
        return expected.record or Record(write.key, result.revision, encode(write.value, result.revision), write.facts)

    async def _is_over(self, fence: Fence) -> bool:
        """Return whether all is visible now that a write did whose answer is lost, and it can do nothing any more."""
        try:
            await self._freshness.wait_for(await self._fences.close(fence))
        except (errors.Unavailable, StoreBroken):
            return False
        except EtcdError:  # a full etcd
            with contextlib.suppress(StoreBroken):
                await self.catch_up()
            return False
        return True

    def _checked(self, write: Write) -> Record | None:
        """Check a write against what this server has seen, and return the object before it. Raises refusals."""
        key, current = write.key, self._state.get(write.key)
        if isinstance(write, Create):
            if current is not None or self._is_unreadable(key):
                raise AlreadyExists(f"{_name(key)} exists")
        elif current is None:
            raise NotFound(f"{_name(key)} does not exist")
        elif write.expected is not None and write.expected != current.revision:
            raise Conflict(f"{_name(key)} has revision {current.revision}, not {write.expected}")
        if not isinstance(write, Delete):
            for claim in write.facts.claims:
                if self._state.holder(claim) not in (None, key):
                    raise ClaimTaken(claim)
        for other in write.also:
            self._check_companion(other)
        return current

    def _check_companion(self, companion: Companion) -> None:
        key, there = companion.key, self._state.get(companion.key)
        if isinstance(companion, Create) and (there is not None or self._is_unreadable(key)):
            raise ClaimTaken(companion.claim)
        if isinstance(companion, (Update, Unchanged)) and (there is None or there.revision != companion.expected):
            raise Conflict(f"{_name(key)} is not of revision {companion.expected} any more")

    def _is_unreadable(self, key: Key) -> bool:
        return bool(self.unreadable) and self.layout.etcd_key(key) in self.unreadable

    @contextlib.contextmanager
    def _expecting(self, planned: Plan) -> Iterator[_Expected]:
        """Expect the written objects in the watch, so that they need not be decoded there; yield the first."""
        before = 0 if planned.current is None else planned.current.revision
        written = [(self.layout.etcd_key(one.key), _expected(one, stored, before)) for one, stored in planned.stored]
        for key, expected in written:
            self._expected.setdefault(key, []).append(expected)
        try:
            yield written[0][1]
        finally:
            for key, expected in written:
                self._expected[key].remove(expected)
                if not self._expected[key]:
                    del self._expected[key]

    # --- encryption

    async def change_encryption(self, encryption: Encryption) -> None:
        form = StoredForm(self.layout, self._codec, encryption)
        try:
            async for entry in self._follower.entries():
                key = self.layout.object_key(entry.key)
                if key is not None and entry.key not in self.unreadable:
                    form.unseal(key, entry.value)
        except Undecodable as error:
            raise StoreBroken(f"can't decrypt {entry.key.decode(errors='replace')} in etcd: {error}") from error
        except EtcdError as error:
            raise store_error(error) from error
        self._form = form

    # --- claims

    async def _repair_claims(self) -> None:
        """Repair the entries of claims at the start and periodically, until cancelled."""
        while True:
            try:
                await repair_claims(self._client, self.layout, self._held_at)
            except (EtcdError, StoreBroken) as error:
                log.warning("cannot repair the claims of addresses and ports: %s", error)
            await asyncio.sleep(_REPAIR_SECONDS)

    async def _held_at(self, revision: int) -> Mapping[str, bytes]:
        await self._freshness.wait_for(revision)
        return {claim: self.layout.etcd_key(key) for claim, key in self._state.claims()}


def _expected(write: Write, stored: bytes | None, revision: int) -> _Expected:
    if isinstance(write, Delete):
        return _Expected(None, revision, {}, Facts())
    return _Expected(stored, revision, write.value, write.facts)


def _check_size(write: Write, planned: Plan) -> None:
    if isinstance(write, Delete) or not write.max_bytes:
        return
    size = len(encode(write.value, 0))
    if size > write.max_bytes:
        raise ValueTooLarge(f"{_name(write.key)} has {size} bytes")


def _name(key: Key) -> str:
    return f"{key.resource} {key.namespace}/{key.name}"

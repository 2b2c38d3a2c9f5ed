"""The default store: in memory, and durable in one SQLite file (WAL, synchronous=FULL).

Writes that arrive during a commit wait and share the next commit. Each is checked in turn, all are written in one
transaction in a worker thread, and then they become visible to readers, watchers and their writers. A failed commit
fails all its writes and changes nothing.

The file belongs to one process at a time (`file.FileLock`); others may read it, which is how backups are made. It
contains Secrets, so only its owner may read it. With an `Encryption`, objects are encrypted in the file, and plain in
memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from .errors import StoreBroken, StoreDamaged
from .file import FileLock, broken, check_content, check_format, corrupt, create
from .history import DEFAULT_BYTES, DEFAULT_CHANGES
from .memory import MemoryStore
from .sealing import ENCRYPTED, Encryption, Unreadable
from .state import Batch, Write
from .store import Change, Facts, Key, Record

log = logging.getLogger(__name__)

T = TypeVar("T")

# Writers to the file hold SQLite's own locks for moments only: a backup that begins, a shell.
_BUSY_SECONDS = 5.0
_VALUE, _FACTS = "value", "facts"


class _StoredFacts(msgspec.Struct, omit_defaults=True):
    labels: dict[str, str] = {}
    fields: dict[str, str] = {}
    claims: frozenset[str] = frozenset()


class _StoredMetadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _Stored(msgspec.Struct):
    """The part of a value that is checked when it is loaded: complete JSON with the revision of its row."""

    metadata: _StoredMetadata


_decode_stored = msgspec.json.Decoder(_Stored).decode
_encode_facts = msgspec.json.Encoder().encode
_decode_facts = msgspec.json.Decoder(_StoredFacts).decode


class Database:
    """The SQLite file. Not thread-safe.

    Every method raises `StoreBroken` with a one-line advice. `stale` are the objects that the file has in another form
    than `encryption` gives them now: of another key, or plain. An unchanged object is written again if it is stale.
    """

    def __init__(self, path: Path, encryption: Encryption | None = None) -> None:
        self._path = path
        self._encryption = encryption
        self._damage: StoreDamaged | None = None
        self._lock: FileLock | None = None
        self.stale: set[Key] = set()
        create(path)
        try:
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise broken(path, error) from error
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        run = self._connection.execute
        check_format(self._connection, self._path)
        self._lock = FileLock(self._path)
        try:
            run("PRAGMA journal_mode = WAL")
            run("PRAGMA synchronous = FULL")
            if self._encryption is not None:
                # What was plain before must not stay in free pages, nor in the journal of an earlier process.
                run("PRAGMA secure_delete = ON")
                run("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise broken(self._path, error) from error

    def load(self) -> tuple[list[Record], int]:
        """Return all objects and the revision of the newest write."""
        try:
            revision = check_content(self._connection, self._path)
            rows = self._connection.execute("SELECT resource, namespace, name, revision, value, facts FROM objects")
            return [self._record(*row) for row in rows], revision
        except sqlite3.Error as error:
            raise broken(self._path, error) from error

    def _record(self, *row: Any) -> Record:
        """Decode a row. Raises `StoreBroken` for one that `_row` cannot have written."""
        resource, namespace, name, revision, value, facts = row
        try:
            key = msgspec.convert((resource, namespace, name), Key)
            if self._encryption is not None or value[:1] == ENCRYPTED[:1]:
                value, facts = self._unsealed(key, value, facts)
            stored, version = _decode_facts(facts), _decode_stored(value).metadata.resource_version
        except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
            raise corrupt(self._path, f"{resource} {namespace}/{name}: {error}") from error
        if type(value) is not bytes or version != str(revision):
            raise corrupt(self._path, f"{resource} {namespace}/{name} is not of revision {revision}")
        return Record(key, revision, value, Facts(stored.labels, stored.fields, stored.claims))

    def _unsealed(self, key: Key, value: bytes, facts: bytes) -> tuple[bytes, bytes]:
        """Return a stored value and its facts in plain form, and remember whether they are stale."""
        if self._encryption is None:
            if not value.startswith(ENCRYPTED):
                return value, facts
            raise StoreBroken(
                f"the store {self._path} has encrypted objects ({key.resource}): "
                "name the file of the keys with --encryption-provider-config"
            )
        sealing = self._encryption.of(key.resource)
        if not sealing.is_current(value):
            self.stale.add(key)
        try:
            return sealing.unseal(key, _VALUE, value), sealing.unseal(key, _FACTS, facts)
        except Unreadable as error:
            raise StoreBroken(
                f"can't decrypt {key.resource} {key.namespace}/{key.name} in the store {self._path}: {error}: "
                "add the key with which it was written to the encryption configuration"
            ) from error

    def change_encryption(self, encryption: Encryption) -> None:
        """Use another encryption from the next write on, if it can decrypt every object. The file is not written to."""
        stale = set()
        try:
            rows = self._connection.execute("SELECT resource, namespace, name, value FROM objects")
            for resource, namespace, name, value in rows:
                key = Key(resource, namespace, name)
                sealing = encryption.of(resource)
                sealing.unseal(key, _VALUE, value)
                if not sealing.is_current(value):
                    stale.add(key)
        except Unreadable as error:
            raise StoreBroken(f"can't decrypt {resource} {namespace}/{name} in the store: {error}") from error
        except sqlite3.Error as error:
            raise broken(self._path, error) from error
        self._encryption, self.stale = encryption, stale

    def commit(self, changes: list[Change]) -> None:
        """Make the changes durable, all or none. A damaged file is not written to any more."""
        if self._damage is not None:
            raise self._damage
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._write(changes)
                self._connection.execute("COMMIT")
            except BaseException:
                # SQLite rolls back by itself after some errors.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            failure = broken(self._path, error)
            if isinstance(failure, StoreDamaged):
                self._damage = failure
                log.error("%s", failure)
            raise failure from error
        if self.stale:
            self._forget_stale(changes)

    def _write(self, changes: list[Change]) -> None:
        # An object that is written twice in the batch needs only its last state on disk.
        last = {change.record.key: change for change in changes}
        self._connection.executemany(
            "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?",
            [key for key, change in last.items() if change.type == "DELETED"],
        )
        self._connection.executemany(
            "INSERT INTO objects (resource, namespace, name, revision, value, facts) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET revision = excluded.revision, value = excluded.value, facts = excluded.facts",
            [self._row(change.record) for change in last.values() if change.type != "DELETED"],
        )
        before, after = changes[0].record.revision - 1, changes[-1].record.revision
        found = self._connection.execute("UPDATE store SET revision = ? WHERE revision = ?", (after, before))
        if found.rowcount != 1:
            raise StoreBroken(f"{self._path} is no longer at revision {before}: another process wrote to it; restart")

    def _row(self, record: Record) -> tuple[str, str, str, int, bytes, bytes]:
        facts = record.facts
        stored = _encode_facts(_StoredFacts(dict(facts.labels), dict(facts.fields), facts.claims))
        value, key = record.value, record.key
        if self._encryption is not None:
            sealing = self._encryption.of(key.resource)
            value, stored = sealing.seal(key, _VALUE, value), sealing.seal(key, _FACTS, stored)
        return (*key, record.revision, value, stored)

    def _forget_stale(self, changes: list[Change]) -> None:
        self.stale.difference_update(change.record.key for change in changes)
        if not self.stale:
            # The journal has the last plain copies.
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self._connection.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None


class SqliteStore(MemoryStore):
    """A store in memory and in a SQLite file; see `store.Store`. Opening it reads the file; raises `StoreBroken`."""

    def __init__(
        self,
        path: str | Path,
        *,
        encryption: Encryption | None = None,
        history_changes: int = DEFAULT_CHANGES,
        history_bytes: int = DEFAULT_BYTES,
    ) -> None:
        super().__init__(history_changes=history_changes, history_bytes=history_bytes)
        # Absolute, because SQLite opens its log by name later.
        self._database = Database(Path(path).absolute(), encryption)
        try:
            records, revision = self._database.load()
        except StoreBroken:
            self._database.close()
            raise
        self._state.load(records, revision)
        self._history.begin(revision)
        self._queue: list[tuple[Write, asyncio.Future[Record]]] = []
        self._committing: asyncio.Task[None] | None = None
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")

    def is_stale(self, key: Key) -> bool:
        return key in self._database.stale

    async def change_encryption(self, encryption: Encryption) -> None:
        await self._in_worker(lambda: self._database.change_encryption(encryption))

    async def _write(self, write: Write) -> Record:
        self._check_open()
        done: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        self._queue.append((write, done))
        # A separate task, so that a cancelled writer does not cancel the commit of others. It ends with the queue.
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit_queue())
        return await done

    async def _commit_queue(self) -> None:
        try:
            while self._queue:
                queue, self._queue = self._queue, []
                await self._commit(queue)
        finally:
            self._committing = None

    async def _commit(self, queue: list[tuple[Write, asyncio.Future[Record]]]) -> None:
        batch = Batch(self._state)
        outcomes: list[tuple[Change | Exception, asyncio.Future[Record]]]
        outcomes = [(_outcome(batch, write), done) for write, done in queue]
        if batch.changes:
            try:
                await self._in_worker(lambda: self._database.commit(batch.changes))
            except Exception as error:  # noqa: BLE001 - each writer gets the error
                # Refused writes get it, too: they may have been refused because of a write that has now failed.
                outcomes = [(error, done) for _, done in queue]
            else:
                self._publish(batch)
        for outcome, done in outcomes:
            if done.done():  # its writer was cancelled
                continue
            if isinstance(outcome, Exception):
                done.set_exception(outcome)
            else:
                done.set_result(outcome.record)

    async def _in_worker(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._worker, function)

    async def close(self) -> None:
        """Wait for pending writes, then close the file."""
        if self._closed:
            return
        await super().close()
        if self._committing is not None:
            await self._committing
        try:
            await self._in_worker(self._database.close)
        finally:
            self._worker.shutdown(wait=False)


def _outcome(batch: Batch, write: Write) -> Change | Exception:
    try:
        return batch.add(write)
    except Exception as refusal:  # noqa: BLE001 - e.g. a value that can't be encoded: only its writer gets the error
        return refusal

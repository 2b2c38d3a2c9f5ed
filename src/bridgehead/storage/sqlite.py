"""The default store: in memory, and durable in one SQLite file (WAL, synchronous=FULL).

Each write is checked when it arrives, against the state after all writes before it. Writes that arrive during a commit
share the next one: they are written in one transaction in a worker thread, and then become visible to readers, watchers
and their writers. A failed commit fails all its writes and those that were checked against them, and changes nothing.

The file belongs to one process at a time (`sqlite_file.FileLock`); others may read it, which is how backups are made.
It contains Secrets, so only its owner may read it. With an `Encryption`, objects are encrypted in the file, and plain
in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from .content import Batch
from .errors import StoreBroken, StoreDamaged
from .memory import MemoryStore
from .records import Change, Key, Record, Write
from .sealing import Encryption, Unreadable
from .sqlite_file import FileLock, broken, check_content, check_format, create
from .sqlite_rows import INSERT, SELECT, VALUE, Rows, about
from .watch_cache import DEFAULT_BYTES, DEFAULT_CHANGES

log = logging.getLogger(__name__)

T = TypeVar("T")

# Writers to the file hold SQLite's own locks for moments only: a backup that begins, a shell.
_BUSY_SECONDS = 5.0


class Database:
    """The SQLite file. Not thread-safe.

    Every method raises `StoreBroken` with a one-line advice. `stale` are the objects that the file has in another form
    than `encryption` gives them now: of another key, or plain. An unchanged object is written again if it is stale.
    """

    def __init__(self, path: Path, encryption: Encryption | None = None) -> None:
        self._path = path
        self._rows = Rows(path, encryption)
        self._damage: StoreDamaged | None = None
        self._lock: FileLock | None = None
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

    @property
    def stale(self) -> set[Key]:
        return self._rows.stale

    def _prepare(self) -> None:
        run = self._connection.execute
        check_format(self._connection, self._path)
        self._lock = FileLock(self._path)
        try:
            run("PRAGMA journal_mode = WAL")
            run("PRAGMA synchronous = FULL")
            if self._rows.encryption is not None:
                # Data that was plain before must not stay in free pages, nor in the journal of an earlier process.
                run("PRAGMA secure_delete = ON")
                run("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise broken(self._path, error) from error

    def load(self) -> tuple[list[Record], int]:
        """Return all objects and the revision of the newest write."""
        try:
            revision = check_content(self._connection, self._path)
            return [self._rows.record(*row) for row in self._connection.execute(SELECT)], revision
        except sqlite3.Error as error:
            raise broken(self._path, error) from error

    def change_encryption(self, encryption: Encryption) -> None:
        """Use another encryption from the next write on, if it can decrypt every object. The file is not written to."""
        stale = set()
        try:
            rows = self._connection.execute("SELECT resource, namespace, name, value FROM objects")
            for resource, namespace, name, value in rows:
                key = Key(resource, namespace, name)
                sealing = encryption.of(resource)
                sealing.unseal(about(key, VALUE), value)
                if not sealing.is_current(value):
                    stale.add(key)
        except Unreadable as error:
            raise StoreBroken(f"can't decrypt {resource} {namespace}/{name} in the store: {error}") from error
        except sqlite3.Error as error:
            raise broken(self._path, error) from error
        self._rows = Rows(self._path, encryption, stale)

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
            f"{INSERT} "
            "ON CONFLICT DO UPDATE SET revision = excluded.revision, value = excluded.value, facts = excluded.facts",
            [self._rows.row(change.record) for change in last.values() if change.type != "DELETED"],
        )
        before, after = changes[0].record.revision - 1, changes[-1].record.revision
        found = self._connection.execute("UPDATE store SET revision = ? WHERE revision = ?", (after, before))
        if found.rowcount != 1:
            raise StoreBroken(f"{self._path} is no longer at revision {before}: another process wrote to it; restart")

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


@dataclass(slots=True)
class _Commit:
    """Writes of one commit: their changes, and what each writer gets. None: it only waits for the commit."""

    batch: Batch
    outcomes: list[tuple[Change | Exception | None, asyncio.Future[Record | None]]] = field(default_factory=list)


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
        # The commit that is being written, and the one that writes join.
        self._running: _Commit | None = None
        self._next: _Commit | None = None
        self._committing: asyncio.Task[None] | None = None
        self._failure: str | None = None
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")

    @property
    def failure(self) -> str | None:
        return self._failure

    def is_stale(self, key: Key) -> bool:
        return key in self._database.stale

    async def change_encryption(self, encryption: Encryption) -> None:
        await self._in_worker(lambda: self._database.change_encryption(encryption))

    def latest(self, key: Key) -> Record | None:
        newest = self._next or self._running
        return self._state.get(key) if newest is None else newest.batch.get(key)

    def list_latest(self, resource: str, namespace: str) -> Sequence[Record]:
        newest = self._next or self._running
        return super().list_latest(resource, namespace) if newest is None else newest.batch.list(resource, namespace)

    def is_claimed(self, claim: str) -> bool:
        newest = self._next or self._running
        return super().is_claimed(claim) if newest is None else newest.batch.holder(claim) is not None

    async def settle(self) -> None:
        if self._next is not None or self._running is not None:
            await self._join(self._open_commit(), None)

    async def _write(self, write: Write) -> Record:
        self._check_open()
        commit = self._open_commit()
        record = await self._join(commit, _outcome(commit.batch, write))
        if record is None:
            raise AssertionError("a write has an outcome")
        return record

    def _open_commit(self) -> _Commit:
        """Return the commit that a write can join."""
        if self._next is None:
            running = self._running
            self._next = _Commit(Batch(self._state, None if running is None else running.batch))
        return self._next

    async def _join(self, commit: _Commit, outcome: Change | Exception | None) -> Record | None:
        done: asyncio.Future[Record | None] = asyncio.get_running_loop().create_future()
        commit.outcomes.append((outcome, done))
        # A separate task, so that a cancelled writer does not cancel the commit of others. It ends with the writes.
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit_all())
        return await done

    async def _commit_all(self) -> None:
        try:
            while self._next is not None:
                self._running, self._next = self._next, None
                await self._commit(self._running)
        finally:
            self._running = self._committing = None

    async def _commit(self, commit: _Commit) -> None:
        batch = commit.batch
        if batch.changes:
            began = time.perf_counter()
            try:
                await self._in_worker(lambda: self._database.commit(batch.changes))
            except Exception as error:  # noqa: BLE001 - each writer gets the error
                # Refused writes get it, too: they may have been refused because of a write that has now failed.
                self._failure = str(error)
                _answer(commit, error)
                if self._next is not None:
                    later, self._next = self._next, None
                    _answer(later, error)
                return
            self._failure = None
            self.on_commit(time.perf_counter() - began)
            self._publish(batch)
        if self._next is not None:
            self._next.batch.on_applied()
        self._running = None
        _answer(commit)

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


def _answer(commit: _Commit, error: Exception | None = None) -> None:
    """Let the writers of a commit go on: with their outcomes, or all with the error."""
    for outcome, done in commit.outcomes:
        if done.done():  # its writer was cancelled
            continue
        failure = error or (outcome if isinstance(outcome, Exception) else None)
        if failure is not None:
            done.set_exception(failure)
        else:
            done.set_result(outcome.record if isinstance(outcome, Change) else None)


def _outcome(batch: Batch, write: Write) -> Change | Exception:
    try:
        return batch.add(write)
    except Exception as refusal:  # noqa: BLE001 - e.g. a value that can't be encoded: only its writer gets the error
        return refusal

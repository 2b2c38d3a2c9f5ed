"""The default store: in memory, and durable in one SQLite file (WAL, synchronous=FULL).

Writes that arrive during a commit wait and share the next commit. Each is checked in turn, all are written in one
transaction in a worker thread, and then they become visible to readers, watchers and their writers. A failed commit
fails all its writes and changes nothing.

The file belongs to one process at a time (`locking_mode=EXCLUSIVE`). It contains Secrets, so only its owner may read
it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from .errors import StoreBroken, StoreDamaged
from .history import DEFAULT_BYTES, DEFAULT_CHANGES
from .memory import MemoryStore
from .state import Batch, Write
from .store import Change, Facts, Key, Record

log = logging.getLogger(__name__)

T = TypeVar("T")

_APPLICATION_ID = 0x42726467  # "Brdg", in the header of the SQLite file
_FORMAT = 1
_SCHEMA = f"""
    BEGIN;
    CREATE TABLE objects (
        resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
        revision INTEGER NOT NULL, value BLOB NOT NULL, facts BLOB NOT NULL,
        UNIQUE (resource, namespace, name)
    );
    CREATE TABLE store (revision INTEGER NOT NULL);
    INSERT INTO store VALUES (0);
    PRAGMA application_id = {_APPLICATION_ID};
    PRAGMA user_version = {_FORMAT};
    COMMIT;
"""


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

    Every method raises `StoreBroken` with a one-line advice.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._damage: StoreDamaged | None = None
        _create(path)
        try:
            # No timeout: another process that has the file keeps it for its lifetime.
            self._connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise _broken(path, error) from error
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        run = self._connection.execute
        try:
            run("PRAGMA locking_mode = EXCLUSIVE")
            (owner,) = run("PRAGMA application_id").fetchone()
            (tables,) = run("SELECT count(*) FROM sqlite_master").fetchone()
            if owner != _APPLICATION_ID:
                raise StoreBroken(f"{self._path} is another program's database: choose another path for the store")
            if not tables:
                raise _corrupt(self._path, "it has no tables")
            run("PRAGMA journal_mode = WAL")
            run("PRAGMA synchronous = FULL")
            (version,) = run("PRAGMA user_version").fetchone()
            (verdict,) = run("PRAGMA quick_check(1)").fetchone()
        except sqlite3.Error as error:
            raise _broken(self._path, error) from error
        if version != _FORMAT:
            raise StoreBroken(
                f"{self._path} has format {version}, this bridgehead reads {_FORMAT}: "
                "start the version that wrote it, or move the file away to begin with an empty store"
            )
        if verdict != "ok":
            raise _corrupt(self._path, verdict.splitlines()[-1])

    def load(self) -> tuple[list[Record], int]:
        """Return all objects and the revision of the newest write."""
        try:
            rows = self._connection.execute("SELECT resource, namespace, name, revision, value, facts FROM objects")
            records = [self._record(*row) for row in rows]
            revisions = [row[0] for row in self._connection.execute("SELECT revision FROM store")]
        except sqlite3.Error as error:
            raise _broken(self._path, error) from error
        if len(revisions) != 1 or type(revisions[0]) is not int:
            raise _corrupt(self._path, "its revision is missing")
        newest = max((record.revision for record in records), default=0)
        if newest > revisions[0]:
            raise _corrupt(self._path, f"an object has revision {newest}, but the store has {revisions[0]}")
        return records, revisions[0]

    def _record(self, *row: Any) -> Record:
        """Decode a row. Raises `StoreBroken` for one that `_row` cannot have written."""
        resource, namespace, name, revision, value, facts = row
        try:
            key = msgspec.convert((resource, namespace, name), Key)
            stored, version = _decode_facts(facts), _decode_stored(value).metadata.resource_version
        except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
            raise _corrupt(self._path, f"{resource} {namespace}/{name}: {error}") from error
        if type(value) is not bytes or version != str(revision):
            raise _corrupt(self._path, f"{resource} {namespace}/{name} is not of revision {revision}")
        return Record(key, revision, value, Facts(stored.labels, stored.fields, stored.claims))

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
            broken = _broken(self._path, error)
            if isinstance(broken, StoreDamaged):
                self._damage = broken
                log.error("%s", broken)
            raise broken from error

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
            [_row(change.record) for change in last.values() if change.type != "DELETED"],
        )
        before, after = changes[0].record.revision - 1, changes[-1].record.revision
        found = self._connection.execute("UPDATE store SET revision = ? WHERE revision = ?", (after, before))
        if found.rowcount != 1:
            raise StoreBroken(f"{self._path} is no longer at revision {before}: another process wrote to it; restart")

    def close(self) -> None:
        self._connection.close()


def _create(path: Path) -> None:
    """Create an empty store if there is no file.

    The complete file is linked into place, so an empty file is always damage and never an unfinished store.
    """
    try:
        if path.exists():
            if path.is_file() and path.stat().st_size == 0:
                raise _corrupt(path, "it is empty")
            return
        with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as directory:
            new = Path(directory) / path.name
            os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as connection:
                connection.executescript(_SCHEMA)
            with contextlib.suppress(FileExistsError):  # another process was faster
                os.link(new, path)
    except OSError as error:
        raise StoreBroken(f"can't create the store {path}: {error.strerror}: choose another path") from error
    except sqlite3.Error as error:
        raise _broken(path, error) from error


def _row(record: Record) -> tuple[str, str, str, int, bytes, bytes]:
    facts = record.facts
    stored = _StoredFacts(dict(facts.labels), dict(facts.fields), facts.claims)
    return (*record.key, record.revision, record.value, _encode_facts(stored))


def _corrupt(path: Path, what: str) -> StoreDamaged:
    return StoreDamaged(
        f"the store {path} is damaged ({what}): restore it from a copy, or move it away to begin with an empty store"
    )


def _broken(path: Path, error: sqlite3.Error) -> StoreBroken:
    """Convert a SQLite error into an error with advice for the operator."""
    name: str = getattr(error, "sqlite_errorname", "")
    match name.split("_")[1] if name.count("_") else "":
        case "BUSY" | "LOCKED":
            return StoreBroken(f"the store {path} is in use by another process: stop it, or choose another path")
        case "NOTADB":
            return StoreDamaged(
                f"{path} is not a bridgehead store: choose another path; if it was one, it is damaged: "
                "restore it from a copy, or move it away to begin with an empty store"
            )
        case "CORRUPT" | "SCHEMA" | "MISMATCH" | "CONSTRAINT" | "FORMAT" | "ERROR" | "":
            # SQL errors are damage, too: the statements fit the tables that `_SCHEMA` creates.
            return _corrupt(path, str(error))
        case "FULL":
            return StoreBroken(f"the disk that holds the store {path} is full: free some space and try again")
        case "CANTOPEN" | "READONLY" | "PERM" | "AUTH":
            return StoreBroken(f"can't write the store {path} ({error}): check its directory's and its own permissions")
    return StoreBroken(f"the store {path} refused ({error}): check the disk that holds it")


class SqliteStore(MemoryStore):
    """A store in memory and in a SQLite file; see `store.Store`. Opening it reads the file; raises `StoreBroken`."""

    def __init__(
        self, path: str | Path, *, history_changes: int = DEFAULT_CHANGES, history_bytes: int = DEFAULT_BYTES
    ) -> None:
        super().__init__(history_changes=history_changes, history_bytes=history_bytes)
        # Absolute, because SQLite opens its log by name later.
        self._database = Database(Path(path).absolute())
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

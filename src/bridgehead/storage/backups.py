"""Copies of stores: `back_up` makes one of a SQLite store, also in use; `restore` replaces such a store by one.

A copy is one SQLite file of one moment, without a journal beside it, whatever store it comes from. Objects that are
encrypted in a SQLite store stay encrypted in its copy, so these functions need no key, and the copy is read with the
keys of its store. Both functions check a copy completely before it gets its name.

`new_copy` and `open_copy` write and read copies object by object, for the store on etcd (`etcd.copies`).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import StoreBroken, StoreDamaged
from .records import Record
from .sealing import Encryption
from .sqlite_file import FileLock, broken, check_content, check_format, corrupt, give_to_owner, initialize
from .sqlite_rows import INSERT, SELECT, Rows

# Pages that are copied between two calls of `on_progress`; 4 MiB.
_STEP_PAGES = 1024
# Added to the revision of a restored store, so that no revision of the replaced one is given twice. Clients whose
# watches are older list again. The value is the one that etcd's documentation advises for `--bump-revision`.
_REVISION_STEP = 1_000_000_000
_BUSY_SECONDS = 5.0

OnProgress = Callable[[int, int], None]
"""Called with the pages or objects copied so far, and all of them."""


@dataclass(frozen=True, slots=True)
class Copied:
    """Summary of a copy. `kept` is the path of the store that `restore` has replaced, None if there was none."""

    objects: int
    revision: int
    size_bytes: int
    kept: Path | None = None


def back_up(store: Path, target: Path, on_progress: OnProgress) -> Copied:
    """Write a copy of the store to `target`, which is replaced if it is a copy already. Raises `StoreBroken`."""
    if not store.is_file():
        raise StoreBroken(f"there is no store {store}")
    _check_replaceable(target, store)
    with _new_file(target) as new, _reading(store, mode="rw") as source:
        _copy(source, store, new, on_progress)
        copied = _check(new, store)
        os.replace(new, target)
    _sync_directory(target)
    return copied


def restore(copy: Path, store: Path, on_progress: OnProgress) -> Copied:
    """Replace the store by a copy. The old one is kept beside it, with the suffix `.old`.

    Raises `StoreBroken` for a file that is not a complete store, and for a store in use.
    """
    check_copy(copy)
    with contextlib.ExitStack() as stack:
        stack.callback(FileLock(store).release)
        if store.exists() and copy.samefile(store):
            raise StoreBroken(f"{copy} is the store itself: name a backup")
        new = stack.enter_context(_new_file(store))
        source = stack.enter_context(_reading(copy))
        _copy(source, copy, new, on_progress)
        _check(new, copy)
        _raise_revision(new, _revision_of(store))
        copied = _check(new, copy)
        give_to_owner(new, store)
        kept = set_aside(store)
        os.replace(new, store)
        _sync_directory(store)
    return Copied(copied.objects, copied.revision, copied.size_bytes, kept)


class NewCopy:
    """A copy that is being written. It gets its name by `finish`."""

    def __init__(self, connection: sqlite3.Connection, new: Path, target: Path, encryption: Encryption | None) -> None:
        self._connection = connection
        self._new = new
        self._target = target
        self._rows = Rows(target, encryption)

    def add(self, records: Sequence[Record]) -> None:
        self._connection.executemany(INSERT, [self._rows.row(record) for record in records])

    def finish(self, revision: int) -> Copied:
        """Complete the copy of a store with this revision. Raises `StoreBroken`."""
        try:
            self._connection.execute("UPDATE store SET revision = ?", (revision,))
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise broken(self._target, error) from error
        copied = _check(self._new, self._target)
        os.replace(self._new, self._target)
        _sync_directory(self._target)
        return copied


@contextlib.contextmanager
def new_copy(target: Path, encryption: Encryption | None) -> Iterator[NewCopy]:
    """Yield a new copy for `target`, which is replaced if it is a copy already. Raises `StoreBroken`.

    Objects get the form that a SQLite store with this encryption gives them.
    """
    _check_replaceable(target, None)
    with _new_file(target) as new:
        try:
            initialize(new)
            with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as connection:
                connection.execute("BEGIN")
                yield NewCopy(connection, new, target, encryption)
        except sqlite3.Error as error:
            raise broken(target, error) from error


class OpenCopy:
    """A copy that is being read: its objects, the revision of its store, its size."""

    def __init__(self, connection: sqlite3.Connection, path: Path, encryption: Encryption | None) -> None:
        self.revision = check_content(connection, path)
        (self.objects,) = connection.execute("SELECT count(*) FROM objects").fetchone()
        self.size_bytes = path.stat().st_size
        self._connection = connection
        self._rows = Rows(path, encryption)

    def records(self, first: str) -> Iterator[Record]:
        """Yield all objects, those of the resource `first` before the others. Raises `StoreBroken`."""
        for row in self._connection.execute(f"{SELECT} ORDER BY resource <> ?, rowid", (first,)):
            yield self._rows.record(*row)


@contextlib.contextmanager
def open_copy(copy: Path, encryption: Encryption | None) -> Iterator[OpenCopy]:
    """Yield a copy after a check of its pages and rows. Raises `StoreBroken`."""
    check_copy(copy)
    with _reading(copy) as connection:
        yield OpenCopy(connection, copy, encryption)


def check_copy(copy: Path) -> None:
    """Raise `StoreBroken` for a file that is no copy. Its content is checked when it is read."""
    if not copy.is_file():
        raise StoreBroken(f"there is no backup {copy}")
    if not _is_store(copy):
        raise StoreDamaged(f"{copy} is damaged, or not a backup of `bridgehead backup` that this version can read")


def _check_replaceable(target: Path, store: Path | None) -> None:
    if not target.exists():
        return
    if not target.is_file():
        raise StoreBroken(f"{target} is not a file: choose another path for the backup")
    if store is not None and target.samefile(store):
        raise StoreBroken(f"{target} is the store itself: choose another path for the backup")
    if target.stat().st_size and not _is_store(target):
        raise StoreBroken(f"{target} exists and is not a backup: choose another path, or remove it")


def _is_store(path: Path) -> bool:
    try:
        with _reading(path) as connection:
            check_format(connection, path)
    except StoreBroken:
        return False
    return True


@contextlib.contextmanager
def _new_file(beside: Path) -> Iterator[Path]:
    """Yield a new file for its owner only, in the directory of `beside`. The directory of the file is removed."""
    try:
        with tempfile.TemporaryDirectory(prefix=f".{beside.name}-", dir=beside.parent) as directory:
            new = Path(directory) / beside.name
            os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            yield new
    except OSError as error:
        raise StoreBroken(f"can't write {beside}: {error.strerror}") from error


@contextlib.contextmanager
def _reading(path: Path, *, mode: str = "ro") -> Iterator[sqlite3.Connection]:
    """Yield a connection that sees the file as it is now, whatever its owner writes meanwhile.

    `mode` "rw" is for stores: nothing is written, but SQLite removes the journal that reading makes beside the file.
    """
    try:
        uri = f"{path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
        with contextlib.closing(connection):
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the transaction begins here
            yield connection
    except sqlite3.Error as error:
        raise broken(path, error) from error


def _copy(source: sqlite3.Connection, path: Path, new: Path, on_progress: OnProgress) -> None:
    check_format(source, path)
    try:
        with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as target:
            source.backup(target, pages=_STEP_PAGES, progress=lambda _, left, pages: on_progress(pages - left, pages))
            target.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise broken(new.parent.parent / new.name, error) from error  # the name that the user gave


def _check(new: Path, source: Path) -> Copied:
    """Return what a copy contains. Raises `StoreDamaged`, which names the source, for an incomplete one."""
    try:
        with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as connection:
            revision = check_content(connection, source)
            (objects,) = connection.execute("SELECT count(*) FROM objects").fetchone()
    except sqlite3.Error as error:
        raise corrupt(source, str(error)) from error
    return Copied(objects, revision, new.stat().st_size)


def _revision_of(store: Path) -> int:
    """Return the revision of the store that is replaced; 0 if there is none, or none that can be read."""
    if not store.exists():
        return 0
    try:
        with _reading(store, mode="rw") as connection:
            check_format(connection, store)
            (revision,) = connection.execute("SELECT max(revision) FROM store").fetchone()
    except StoreBroken:
        return 0
    return revision if type(revision) is int else 0


def _raise_revision(new: Path, replaced: int) -> None:
    with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as connection:
        connection.execute("UPDATE store SET revision = max(revision, ?) + ?", (replaced, _REVISION_STEP))


def set_aside(store: Path) -> Path | None:
    """Give a store that is not in use the suffix `.old`; return its new path, None if there is none."""
    if not store.exists():
        return None
    kept = store.with_name(f"{store.name}.old")
    for suffix in ("-wal", "-shm", ""):
        kept.with_name(kept.name + suffix).unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):  # the journal goes first: it fits no other file
        store.with_name(f"{store.name}-wal").rename(kept.with_name(f"{kept.name}-wal"))
    store.with_name(f"{store.name}-shm").unlink(missing_ok=True)
    store.rename(kept)
    return kept


def _sync_directory(path: Path) -> None:
    directory = os.open(path.absolute().parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)

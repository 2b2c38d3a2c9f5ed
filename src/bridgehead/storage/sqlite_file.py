"""The file of a SQLite store: its format, its lock, and errors with advice for operators.

`sqlite` writes such files, `backups` copies them. Both raise `StoreBroken` and `StoreDamaged` with the texts of this
module.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import tempfile
from pathlib import Path

from .errors import StoreBroken, StoreDamaged

APPLICATION_ID = 0x42726467  # "Brdg", in the header of the SQLite file
FORMAT = 1
_SCHEMA = f"""
    BEGIN;
    CREATE TABLE objects (
        resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
        revision INTEGER NOT NULL, value BLOB NOT NULL, facts BLOB NOT NULL,
        UNIQUE (resource, namespace, name)
    );
    CREATE TABLE store (revision INTEGER NOT NULL);
    INSERT INTO store VALUES (0);
    PRAGMA application_id = {APPLICATION_ID};
    PRAGMA user_version = {FORMAT};
    COMMIT;
"""


class FileLock:
    """The lock of the process that owns a store: `PATH.lock`, beside the store. Raises `StoreBroken`.

    SQLite's own locks are shorter, so that other processes can read the store meanwhile. The kernel releases the lock
    when the process ends.
    """

    def __init__(self, path: Path) -> None:
        lock = path.with_name(f"{path.name}.lock")
        try:
            self._fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise StoreBroken(
                f"can't write the store {path} ({lock.name}: {error.strerror}): "
                "check its directory's and its own permissions"
            ) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            raise in_use(path) from error

        give_to_owner(lock, path)

    def release(self) -> None:
        os.close(self._fd)


def give_to_owner(new: Path, store: Path) -> None:
    """Give a file to the owner of the store: an administrator may restore the store of another user."""
    if os.geteuid() != 0:
        return
    owner = (store if store.exists() else store.parent).stat()
    if owner.st_uid != 0:
        with contextlib.suppress(OSError):  # an id that does not exist in this user namespace
            os.chown(new, owner.st_uid, owner.st_gid)


def create(path: Path) -> None:
    """Create an empty store if there is no file.

    The complete file is linked into place, so an empty file is always damage and never an unfinished store.
    """
    try:
        if path.exists():
            if path.is_file() and path.stat().st_size == 0:
                raise corrupt(path, "it is empty")
            return
        with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as directory:
            new = Path(directory) / path.name
            os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            initialize(new)
            with contextlib.suppress(FileExistsError):  # another process was faster
                os.link(new, path)
    except OSError as error:
        raise StoreBroken(f"can't create the store {path}: {error.strerror}: choose another path") from error
    except sqlite3.Error as error:
        raise broken(path, error) from error


def initialize(new: Path) -> None:
    """Make an empty file a store without objects. Raises sqlite3.Error."""
    with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as connection:
        connection.executescript(_SCHEMA)


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `StoreBroken` unless the file is a store of this format."""
    try:
        (owner,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error as error:
        raise broken(path, error) from error
    if owner != APPLICATION_ID:
        raise StoreBroken(f"{path} is another program's database: choose another path for the store")
    if not tables:
        raise corrupt(path, "it has no tables")
    if version != FORMAT:
        raise StoreBroken(
            f"{path} has format {version}, this bridgehead reads {FORMAT}: "
            "start the version that wrote it, or move the file away to begin with an empty store"
        )


def check_content(connection: sqlite3.Connection, path: Path) -> int:
    """Return the revision of the newest write. Raises `StoreDamaged` for a file whose pages or rows do not agree."""
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise corrupt(path, verdict.splitlines()[-1])
    revisions = [row[0] for row in connection.execute("SELECT revision FROM store")]
    if len(revisions) != 1 or type(revisions[0]) is not int:
        raise corrupt(path, "its revision is missing")
    (newest,) = connection.execute("SELECT coalesce(max(revision), 0) FROM objects").fetchone()
    if newest > revisions[0]:
        raise corrupt(path, f"an object has revision {newest}, but the store has {revisions[0]}")
    return int(revisions[0])


def in_use(path: Path) -> StoreBroken:
    return StoreBroken(f"the store {path} is in use by another process: stop it, or choose another path")


def corrupt(path: Path, what: str) -> StoreDamaged:
    return StoreDamaged(
        f"the store {path} is damaged ({what}): restore it from a copy with `bridgehead restore`, "
        "or move it away to begin with an empty store"
    )


def broken(path: Path, error: sqlite3.Error) -> StoreBroken:
    """Convert a SQLite error into an error with advice for the operator."""
    name: str = getattr(error, "sqlite_errorname", "")
    match name.split("_")[1] if name.count("_") else "":
        case "BUSY" | "LOCKED":
            return in_use(path)
        case "NOTADB":
            return StoreDamaged(
                f"{path} is not a bridgehead store: choose another path; if it was one, it is damaged: "
                "restore it from a copy with `bridgehead restore`, or move it away to begin with an empty store"
            )
        case "CORRUPT" | "SCHEMA" | "MISMATCH" | "CONSTRAINT" | "FORMAT" | "ERROR" | "":
            # SQL errors are damage, too: the statements fit the tables that `_SCHEMA` creates.
            return corrupt(path, str(error))
        case "FULL":
            return StoreBroken(f"the disk that holds the store {path} is full: free some space and try again")
        case "CANTOPEN" | "READONLY" | "PERM" | "AUTH":
            return StoreBroken(f"can't write the store {path} ({error}): check its directory's and its own permissions")
    return StoreBroken(f"the store {path} refused ({error}): check the disk that holds it")

"""The store of the API server's objects.

    store        the interface
    records      what is kept, and what is written
    content      the objects, in the order of lists, and the rules of a write
    watch_cache  the newest changes, and watches
    memory       in memory
    sqlite       in memory, and durable in one SQLite file
    sqlite_rows  objects as rows of this file
    sqlite_file  the format of this file, its lock, errors with advice
    backups      backups, which are such files, and their restoration
    sealing      encryption of stored objects; encryption/ reads its configuration and has the ciphers
    etcd/        the layout of etcd's keys, and the interface to the stored form of objects
    errors       the errors

Other packages import from here.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .errors import (
    AlreadyExists,
    ClaimTaken,
    Conflict,
    NotFound,
    OutcomeUnknown,
    Overflow,
    StorageError,
    StoreAway,
    StoreBroken,
    StoreDamaged,
    TooOld,
    ValueTooLarge,
)
from .memory import MemoryStore
from .records import (
    Change,
    Companions,
    Create,
    Delete,
    Facts,
    FieldValue,
    JsonObject,
    Key,
    Record,
    Unchanged,
    Update,
)
from .store import Store, Watch

if TYPE_CHECKING:
    from .sealing import Encryption

__all__ = [
    "AlreadyExists",
    "Change",
    "ClaimTaken",
    "Companions",
    "Conflict",
    "Create",
    "Delete",
    "Facts",
    "FieldValue",
    "JsonObject",
    "Key",
    "MemoryStore",
    "NotFound",
    "OutcomeUnknown",
    "Overflow",
    "Record",
    "StorageError",
    "Store",
    "StoreAway",
    "StoreBroken",
    "StoreDamaged",
    "TooOld",
    "Unchanged",
    "Update",
    "ValueTooLarge",
    "Watch",
    "open_store",
    "store_path",
]


def open_store(url: str, encryption: Encryption | None = None) -> Store:
    """Open the store of `url`: `memory`, or `sqlite://` and a path (`sqlite:///var/lib/bridgehead/state.db`).

    Reads the whole file before it returns. `encryption` is for the file; memory stays plain.
    Raises `StoreBroken` with a one-line advice.
    """
    if url == "memory":
        # The clients of a server that was restarted watch from revisions of the lost store. Theirs are too old, not of
        # the future, as long as a store has fewer writes than milliseconds.
        return MemoryStore(revision=int(time.time() * 1000))
    path = store_path(url)
    if path is None:
        raise StoreBroken(f"unknown store {url!r}: use 'memory' or 'sqlite:///path/to/file'")
    from .sqlite import SqliteStore  # loads SQLite on demand

    return SqliteStore(path, encryption=encryption)


def store_path(url: str) -> str | None:
    """Return the path in a `sqlite://` URL, None for other text."""
    scheme, separator, path = url.partition("://")
    return path if scheme == "sqlite" and separator and path else None

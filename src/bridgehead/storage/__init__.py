"""The store of the API server's objects.

    store      the interface
    memory     in memory
    sqlite     in memory, and durable in one SQLite file
    state      the objects, and the rules of a write
    history    the newest changes, and watches
    errors     the errors

Other packages import from here.
"""

from __future__ import annotations

from .errors import (
    AlreadyExists,
    ClaimTaken,
    Conflict,
    NotFound,
    Overflow,
    StorageError,
    StoreBroken,
    StoreDamaged,
    TooOld,
)
from .memory import MemoryStore
from .state import Companions, Create, Delete
from .store import Change, Facts, JsonObject, Key, Record, Store, Watch

__all__ = [
    "AlreadyExists",
    "Change",
    "ClaimTaken",
    "Companions",
    "Conflict",
    "Create",
    "Delete",
    "Facts",
    "JsonObject",
    "Key",
    "MemoryStore",
    "NotFound",
    "Overflow",
    "Record",
    "StorageError",
    "Store",
    "StoreBroken",
    "StoreDamaged",
    "TooOld",
    "Watch",
    "open_store",
]


def open_store(url: str) -> Store:
    """Open the store of `url`: `memory`, or `sqlite://` and a path (`sqlite:///var/lib/bridgehead/state.db`).

    Reads the whole file before it returns. Raises `StoreBroken` with a one-line advice.
    """
    if url == "memory":
        return MemoryStore()
    scheme, separator, path = url.partition("://")
    if scheme == "sqlite" and separator and path:
        from .sqlite import SqliteStore  # loads SQLite on demand

        return SqliteStore(path)
    raise StoreBroken(f"unknown store {url!r}: use 'memory' or 'sqlite:///path/to/file'")

"""Where the API server's objects live: one interface (`store`), in memory (`memory`) or in one file (`sqlite`).

`state` the objects and the rules of a write · `history` the newest changes and their watches · `errors` refusals.
Others import from here only.
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
from .store import Change, Facts, JsonObject, Key, Record, Store, Watch

__all__ = [
    "AlreadyExists",
    "Change",
    "ClaimTaken",
    "Conflict",
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
    """Open the store that `url` names: `memory`, or `sqlite://` and a path (`sqlite:///var/lib/bridgehead/state.db`).

    Reads the whole file before it returns. Raises `StoreBroken` with one line that says what to do.
    """
    if url == "memory":
        return MemoryStore()
    scheme, separator, path = url.partition("://")
    if scheme == "sqlite" and separator and path:
        from .sqlite import SqliteStore  # only who asks for it loads SQLite

        return SqliteStore(path)
    raise StoreBroken(f"unknown store {url!r}: use 'memory' or 'sqlite:///path/to/file'")

"""The interface between a store on etcd and the form in which objects are stored there.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import Protocol

from bridgehead.storage.errors import StorageError
from bridgehead.storage.records import Facts, JsonObject, Key

_MAX_REASON = 500  # characters: the reason may quote the value


class Undecodable(StorageError):
    """A stored value that is no object of its key's resource. The text is one printable line that names the reason."""

    def __init__(self, reason: str) -> None:
        shown = "".join(one if one.isprintable() else "?" for one in reason[:_MAX_REASON])
        super().__init__(shown)


class Undecryptable(Undecodable):
    """A stored value that no configured key decrypts."""


class ObjectCodec(Protocol):
    """Converts objects to the bytes that etcd stores, in the storage version of their kinds, and back.

    Stored objects have no `metadata.resourceVersion`: it is the key's `mod_revision`. The methods may be called in any
    thread. Both learn the definitions of custom resources from the definitions that they convert: load those first.
    """

    def encode(self, key: Key, obj: JsonObject) -> bytes:
        """Return the stored form of an object, which is not changed. Drops `metadata.resourceVersion`."""
        ...

    def decode(self, key: Key, stored: bytes) -> tuple[JsonObject, Facts]:
        """Return an object without resourceVersion, in the form in which the API serves it, and its facts.

        The object begins with `kind` and `apiVersion`. Raises `Undecodable`.
        """
        ...

"""The interface between the store's file and the encryption of its objects. `encryption` implements it.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from .records import Key

# Prefix of every encrypted value. Plain values are JSON, so they begin with another byte.
ENCRYPTED = b"k8s:enc:"


class Unreadable(Exception):
    """A stored value that no configured key decrypts."""


class Sealing(Protocol):
    """Encryption of one resource's objects. `part` is "value" or "facts", the two blobs of an object."""

    def is_current(self, stored: bytes) -> bool:
        """Whether a stored value has the form that `seal` gives it, by its prefix."""
        ...

    def seal(self, key: Key, part: str, plain: bytes) -> bytes: ...

    def unseal(self, key: Key, part: str, stored: bytes) -> bytes:
        """Return the plain bytes. Raises `Unreadable`."""
        ...


class Encryption(Protocol):
    def of(self, resource: str) -> Sealing:
        """Return the encryption of a resource: `secrets`, `deployments.apps`."""
        ...


@runtime_checkable
class EncryptedStore(Protocol):
    """A store with a file whose objects may be encrypted."""

    async def change_encryption(self, encryption: Encryption) -> None:
        """Use another encryption from the next write on. Raises `StoreBroken` if it cannot decrypt the objects."""
        ...

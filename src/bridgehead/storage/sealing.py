"""The interface between what a store keeps outside of memory and the encryption of its objects. `encryption`
implements it.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

# Prefix of every encrypted value. Plain values are JSON, so they begin with another byte.
ENCRYPTED = b"k8s:enc:"


class Unreadable(Exception):
    """A stored value that no configured key decrypts."""


class Sealing(Protocol):
    """Encryption of one resource's objects.

    `about` is authenticated with a value: it names the object, so that nobody can exchange the values of two objects.
    """

    def is_current(self, stored: bytes) -> bool:
        """Whether a stored value has the form that `seal` gives it, by its prefix."""
        ...

    def seal(self, about: bytes, plain: bytes) -> bytes: ...

    def unseal(self, about: bytes, stored: bytes) -> bytes:
        """Return the plain bytes. Raises `Unreadable`."""
        ...


class Encryption(Protocol):
    def of(self, resource: str) -> Sealing:
        """Return the encryption of a resource: `secrets`, `deployments.apps`."""
        ...


@runtime_checkable
class EncryptedStore(Protocol):
    """A store whose objects may be encrypted outside of memory."""

    async def change_encryption(self, encryption: Encryption) -> None:
        """Use another encryption from the next write on. Raises `StoreBroken` if it cannot decrypt the objects."""
        ...

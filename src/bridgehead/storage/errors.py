"""StorageError
AlreadyExists   create: the key is taken
NotFound        update, delete: no such key
Conflict        update, delete: the object has another revision by now
ClaimTaken      create, update: another object holds one of the claims
TooOld          watch: the history no longer reaches back that far
Overflow        reading a watch: the reader was too slow and has been dropped
StoreBroken     the disk refused a write or the file is not ours; nothing was acknowledged
  StoreDamaged  the file is not as it was written; it is left as it is
"""

from __future__ import annotations


class StorageError(Exception):
    """What a store refuses."""


class AlreadyExists(StorageError): ...


class NotFound(StorageError): ...


class Conflict(StorageError): ...


class ClaimTaken(StorageError):
    def __init__(self, claim: str) -> None:
        super().__init__(claim)
        self.claim = claim


class TooOld(StorageError): ...


class Overflow(StorageError): ...


class StoreBroken(StorageError): ...


class StoreDamaged(StoreBroken): ...

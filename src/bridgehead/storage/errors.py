"""Errors of a store; all are `StorageError`s.

AlreadyExists     create: the key is taken
NotFound          update, delete: no such key
Conflict          update, delete, and create with further updates: an object has another revision
ClaimTaken        create, update: another object holds one of the claims
ValueTooLarge     create, update: the encoded object is larger than the writer allows
TooOld            watch: the history does not reach back to the revision
Overflow          reading a watch: the reader was too slow and has been dropped
StoreBroken       the disk refused a write, or the file is not a store's; nothing was acknowledged
  StoreAway       the store cannot be reached now, and nothing was written
  OutcomeUnknown  the connection to the store was lost during a write, which may be carried out or not
  StoreDamaged    the file's content is not what was written; the file is left unchanged
"""

from __future__ import annotations


class StorageError(Exception):
    """An operation that a store refused."""


class AlreadyExists(StorageError): ...


class NotFound(StorageError): ...


class Conflict(StorageError): ...


class ClaimTaken(StorageError):
    def __init__(self, claim: str) -> None:
        super().__init__(claim)
        self.claim = claim


class ValueTooLarge(StorageError): ...


class TooOld(StorageError): ...


class Overflow(StorageError): ...


class StoreBroken(StorageError): ...


class StoreAway(StoreBroken): ...


class OutcomeUnknown(StoreBroken): ...


class StoreDamaged(StoreBroken): ...

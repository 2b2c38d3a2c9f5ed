"""Comparisons and operations of transactions, and ranges of keys.

    client.txn([create_revision_equals(key, 0)], [put(key, value)], [get(key)])

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from .messages_pb2 import Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp


def prefix_end(prefix: bytes) -> bytes:
    """Return the end of the range of all keys that start with `prefix`; an empty prefix is that of all keys."""
    shortened = prefix.rstrip(b"\xff")
    return shortened[:-1] + bytes((shortened[-1] + 1,)) if shortened else b"\0"


def mod_revision_equals(key: bytes, revision: int) -> Compare:
    """The key was last written at the revision; 0: it does not exist."""
    return Compare(target=Compare.MOD, key=key, mod_revision=revision)


def mod_revision_less(key: bytes, revision: int) -> Compare:
    return Compare(result=Compare.LESS, target=Compare.MOD, key=key, mod_revision=revision)


def create_revision_equals(key: bytes, revision: int) -> Compare:
    """The key was created at the revision; 0: it does not exist."""
    return Compare(target=Compare.CREATE, key=key, create_revision=revision)


def exists(key: bytes) -> Compare:
    return Compare(result=Compare.GREATER, target=Compare.CREATE, key=key, create_revision=0)


def version_equals(key: bytes, version: int) -> Compare:
    """The key was written `version` times since its creation; 0: it does not exist."""
    return Compare(target=Compare.VERSION, key=key, version=version)


def value_equals(key: bytes, value: bytes) -> Compare:
    """The key exists with the value; a key that does not exist is different from each value, also from an empty one."""
    return Compare(target=Compare.VALUE, key=key, value=value)


def lease_equals(key: bytes, lease: int) -> Compare:
    """The key has the lease; 0: it has none, or does not exist."""
    return Compare(target=Compare.LEASE, key=key, lease=lease)


def put(key: bytes, value: bytes, lease: int = 0, *, prev_kv: bool = False) -> RequestOp:
    """Write a key. `lease` 0 removes the lease that it had."""
    return RequestOp(request_put=PutRequest(key=key, value=value, lease=lease, prev_kv=prev_kv))


def delete(key: bytes, end: bytes = b"", *, prev_kv: bool = False) -> RequestOp:
    """Delete a key, or those from `key` up to `end`, which is not part of the range."""
    return RequestOp(request_delete_range=DeleteRangeRequest(key=key, range_end=end, prev_kv=prev_kv))


def get(key: bytes, end: bytes = b"", *, limit: int = 0) -> RequestOp:
    """Read a key, or at most `limit` (0: all) of those from `key` up to `end`."""
    return RequestOp(request_range=RangeRequest(key=key, range_end=end, limit=limit))

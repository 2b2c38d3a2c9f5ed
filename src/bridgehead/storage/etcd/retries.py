"""Retries while an etcd does not answer for a moment, as when it elects a leader, and its errors as the store's."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bridgehead.backoff import Backoff
from bridgehead.storage.errors import OutcomeUnknown, StoreAway, StoreBroken, ValueTooLarge

from .client import errors

T = TypeVar("T")

# Elections take one to two seconds (--election-timeout, 1 s).
_SECONDS = 5.0


async def patiently(operation: Callable[[], Awaitable[T]]) -> T:
    """Return the result of an operation, repeated while etcd cannot be reached. Raises its errors."""
    clock = asyncio.get_running_loop().time
    end = clock() + _SECONDS
    backoff = Backoff(0.05, 0.5, jitter=random.random)
    while True:
        try:
            return await operation()
        except errors.Unavailable:
            if clock() >= end:
                raise
        await asyncio.sleep(backoff.next())


def store_error(error: errors.EtcdError) -> StoreBroken | ValueTooLarge:
    """Return the store's error for one of etcd's."""
    if isinstance(error, errors.TooLarge):
        return ValueTooLarge(str(error))
    if isinstance(error, errors.OutcomeUnknown):
        return OutcomeUnknown(str(error))
    if isinstance(error, errors.Unavailable):
        return StoreAway(str(error))
    return StoreBroken(str(error))

"""Fences: keys that end writes whose answers are lost.

Every write compares that the current fence, a key, does not exist. When the answer to one is lost, the fence is made:
after its revision the write cannot succeed any more, wherever it is still under way. Whatever it did before this
revision is known once the watch has come that far.

A fence is used once, and its key has a lease that outlives every request.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from .client.errors import EtcdError, OutcomeUnknown, Unavailable
from .client.etcd_client import EtcdClient
from .client.messages_pb2 import Compare
from .client.requests import create_revision_equals, put
from .retries import patiently

# No request is under way for so long.
_LIFETIME_SECONDS = 3600
# etcd elects a leader in less.
_CLOSING_SECONDS = 6.0
_AGAIN_SECONDS = 0.05


@dataclass(slots=True, eq=False)
class Fence:
    """A key that does not exist until the fence is closed. `is_open` is the comparison of a transaction."""

    key: bytes
    is_open: Compare = field(init=False)
    closing: asyncio.Task[int] | None = None

    def __post_init__(self) -> None:
        self.is_open = create_revision_equals(self.key, 0)


class Fences:
    """`current` is for new writes. `lease` returns a lease of etcd for some seconds."""

    def __init__(self, client: EtcdClient, own_prefix: bytes, lease: Callable[[int], Awaitable[int]]) -> None:
        self._client = client
        self._prefix = own_prefix + b"fences/"
        self._lease = lease
        self.current = self._new()

    def _new(self) -> Fence:
        return Fence(self._prefix + secrets.token_hex(8).encode())

    async def close(self, fence: Fence) -> int:
        """Return the revision after which no transaction succeeds that compares the fence. Raises `EtcdError`."""
        if fence.closing is None:
            if fence is self.current:
                self.current = self._new()
            fence.closing = asyncio.create_task(self._close(fence))
            fence.closing.add_done_callback(_retrieve)
        return await asyncio.shield(fence.closing)

    async def _close(self, fence: Fence) -> int:
        try:
            async with asyncio.timeout(_CLOSING_SECONDS):
                lease = await patiently(partial(self._lease, _LIFETIME_SECONDS))
                while True:
                    try:
                        written = partial(self._client.txn, [], [put(fence.key, b"", lease=lease)])
                        return (await patiently(written)).revision
                    except OutcomeUnknown:  # it may be written twice
                        await asyncio.sleep(_AGAIN_SECONDS)
        except TimeoutError:
            raise Unavailable("etcd has not accepted a write in time") from None


def _retrieve(closing: asyncio.Task[int]) -> None:
    """Take the error of a task that nobody may wait for any more."""
    if not closing.cancelled() and isinstance(closing.exception(), EtcdError):
        return

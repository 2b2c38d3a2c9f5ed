"""Leases of etcd for objects with a lifetime: etcd deletes them when it is over.

One lease is shared by the objects of a minute, because leases cost etcd memory and time.
Source: apiserver/pkg/storage/etcd3/lease_manager.go.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from .client.etcd_client import EtcdClient

_MOST_REUSE_SECONDS = 60
_MOST_OBJECTS = 1000


@dataclass(slots=True)
class _Shared:
    id: int
    until: float
    objects: int = 0


class Leases:
    def __init__(self, client: EtcdClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._shared: dict[int, _Shared] = {}
        self._granting: dict[int, asyncio.Lock] = {}

    async def lease(self, seconds: int) -> int:
        """Return a lease for an object that lives this long, 0 for one that stays. Raises `EtcdError`.

        The object lives a twentieth longer at most, and never more than a minute.
        """
        if not seconds:
            return 0
        async with self._granting.setdefault(seconds, asyncio.Lock()):
            shared = self._shared.get(seconds)
            if shared is None or self._clock() >= shared.until or shared.objects >= _MOST_OBJECTS:
                reuse = min(_MOST_REUSE_SECONDS, seconds // 20)
                shared = _Shared(await self._client.lease_grant(seconds + reuse), self._clock() + reuse)
                self._shared[seconds] = shared
            shared.objects += 1
            return shared.id

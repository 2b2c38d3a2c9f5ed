"""Fallback pools, restored after they were lost with their definition or their namespace.

`kubectl delete -f` of MetalLB's manifest deletes the definitions and the namespace, and with them the pool that a lab
brings. The controller installs both again, and then restores the fallback pools and the L2Advertisements that are for
them alone. The deletion of such an object itself is obeyed.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from bridgehead.backoff import Backoff
from bridgehead.balancer.configuration.pools import is_fallback
from bridgehead.balancer.configuration_watch import ConfigurationWatch
from bridgehead.client import ApiClient
from bridgehead.client.errors import AlreadyExists, ClientError, NotFound
from bridgehead.objects.extensions import DEFINITIONS
from bridgehead.objects.kinds import NAMESPACES, Kind
from bridgehead.objects.meta import ObjectMeta
from bridgehead.objects.metallb import IP_ADDRESS_POOLS, L2_ADVERTISEMENTS, IPAddressPool, L2Advertisement

log = logging.getLogger(__name__)

_DELAYS: Final = (0.1, 5.0)  # seconds: first and longest between two tries


_Object = IPAddressPool | L2Advertisement
_Change = tuple[Kind[Any], _Object, bool]  # the bool: whether the object was deleted


class FallbackPools:
    """Use: `run`, beside the watch."""

    def __init__(self, client: ApiClient, namespace: str, watch: ConfigurationWatch) -> None:
        self._client = client
        self._namespace = namespace
        self._watch = watch
        self._pools: set[str] = set()  # names of fallback pools, also of those that were deleted
        self._parents: dict[str, tuple[str, ...]] = {}  # uids of the definition and the namespace, by an object's uid
        self._changes: asyncio.Queue[_Change] = asyncio.Queue()

    async def run(self) -> None:
        """Restore until cancelled."""
        self._watch.pools.on_change(self._pool_changed)
        self._watch.layer2_advertisements.on_change(self._advertisement_changed)
        while True:
            kind, obj, is_deleted = await self._changes.get()
            await self._retry(functools.partial(self._restore if is_deleted else self._record, kind, obj))

    def _pool_changed(self, old: IPAddressPool | None, new: IPAddressPool | None) -> None:
        if new is not None and is_fallback(new.metadata.annotations):
            self._pools.add(new.metadata.name)
        found = new if new is not None else old
        if found is not None and is_fallback(found.metadata.annotations):
            self._changed(IP_ADDRESS_POOLS, old, new)

    def _advertisement_changed(self, old: L2Advertisement | None, new: L2Advertisement | None) -> None:
        found = new if new is not None else old
        if found is not None and found.spec.ip_address_pools:
            self._changed(L2_ADVERTISEMENTS, old, new)

    def _changed(self, kind: Kind[Any], old: _Object | None, new: _Object | None) -> None:
        for obj in (old, new):
            if obj is not None and (old is None or new is None) and obj.metadata.namespace == self._namespace:
                self._changes.put_nowait((kind, obj, new is None))

    async def _retry(self, work: Callable[[], Awaitable[None]]) -> None:
        backoff = Backoff(*_DELAYS)
        while True:
            try:
                return await work()
            except ClientError as error:  # the definition or the namespace is not back yet
                log.debug("fallback pools: %s", error)
                await asyncio.sleep(backoff.next())

    async def _record(self, kind: Kind[Any], obj: _Object) -> None:
        """Remember to which definition and namespace a new object belongs."""
        self._parents[obj.metadata.uid] = await self._parents_of(kind, obj)

    async def _restore(self, kind: Kind[Any], obj: _Object) -> None:
        """Create a deleted object anew if it was lost with its definition or namespace. Raises ClientError."""
        meta = obj.metadata
        if isinstance(obj, L2Advertisement) and not self._pools.issuperset(obj.spec.ip_address_pools):
            self._parents.pop(meta.uid, None)
            return
        if meta.uid in self._parents:
            parents = await self._parents_of(kind, obj)
            if parents and parents == self._parents.pop(meta.uid):
                return
        fresh = ObjectMeta(name=meta.name, namespace=meta.namespace, labels=meta.labels, annotations=meta.annotations)
        with contextlib.suppress(AlreadyExists):
            await self._client.create(kind, type(obj)(metadata=fresh, spec=obj.spec))  # type: ignore[arg-type]
            log.info("restored the %s %s, which was lost with its definition or namespace", kind.name, meta.name)

    async def _parents_of(self, kind: Kind[Any], obj: _Object) -> tuple[str, ...]:
        """Return the uids of the definition and the namespace; () if one of them is gone or going."""
        parents: tuple[tuple[Kind[Any], str], ...] = (
            (DEFINITIONS, f"{kind.plural}.{kind.group}"),
            (NAMESPACES, obj.metadata.namespace),
        )
        try:
            found = [await self._client.get(parent, name) for parent, name in parents]
        except NotFound:
            return ()
        return () if any(one.metadata.deletion_timestamp for one in found) else tuple(one.metadata.uid for one in found)

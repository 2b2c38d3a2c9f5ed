"""Leader election by a Lease: a candidate waits, leads while it renews the Lease, and releases it at its end.

Source: client-go's tools/leaderelection. In addition, a candidate that waits watches the Lease, so that it takes a
released one at once, and an expired one at the moment of its expiry.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable

from bridgehead.objects.coordination import Lease
from bridgehead.objects.kinds import LEASES
from bridgehead.objects.meta import ObjectKey, ObjectMeta
from bridgehead.objects.times import format_micro_time
from bridgehead.racing import race

from .api import ApiClient
from .candidacy import JITTER_FACTOR, Candidacy, ElectionTimings, released
from .errors import AlreadyExists, ClientError, Conflict, NotFound
from .event_recorder import EventRecorder
from .informer import Informer, running

log = logging.getLogger(__name__)

_RELEASE_SECONDS = 2.0
_DEFAULT_TIMINGS = ElectionTimings()


class LeaderElector:
    """A candidate for the Lease `key`, called `identity`, which must be unique. `component`: the source of its Events.

    `jitter` returns numbers from 0 to 1, which spread the tries of many candidates.
    """

    def __init__(
        self,
        client: ApiClient,
        key: ObjectKey,
        identity: str,
        component: str,
        timings: ElectionTimings = _DEFAULT_TIMINGS,
        *,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._key = key
        self._timings = timings
        self._jitter = jitter
        self._recorder = EventRecorder(client, component)
        self._candidacy = Candidacy(identity, timings)
        self._lease: Lease | None = None  # as the API server had it last
        self._free = asyncio.Event()  # the Lease may be free
        self.is_leader = False

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait to be elected, then run `lead`, which is cancelled when the Lease is lost.

        Returns when `lead` has ended or the Lease is lost, so that the caller decides whether to try again. The Lease
        is released at the end if possible, after the end of `lead`.
        """
        await self._acquire()
        identity = self._candidacy.identity
        log.info("%s holds the lease %s and leads", identity, self._key)
        self.is_leader = True
        try:
            async with running(self._recorder):
                if self._lease is not None:
                    self._recorder.record(self._lease, reason="LeaderElection", message=f"{identity} became leader")
                await race(lead(), self._keep())
        finally:
            self.is_leader = False
            await self._release()

    async def _acquire(self) -> None:
        """Try until the Lease is this candidate's."""
        informer = Informer(self._client, LEASES, self._key.namespace, field_selector=f"metadata.name={self._key.name}")
        informer.on_change(self._on_change)
        now = asyncio.get_running_loop().time
        async with running(informer):
            while True:
                self._free.clear()
                if await self._acquire_or_renew():
                    return
                retry = self._timings.retry_period * (1 + JITTER_FACTOR * self._jitter())
                expiry = self._candidacy.expires_at - now()
                try:
                    async with asyncio.timeout(min(retry, expiry) if expiry > 0 else retry):
                        await self._free.wait()
                except TimeoutError:
                    pass

    def _on_change(self, _: Lease | None, new: Lease | None) -> None:
        if new is not None:
            self._candidacy.observe(new.spec, asyncio.get_running_loop().time())
        if new is None or not new.spec.holder_identity:
            self._free.set()

    async def _keep(self) -> None:
        """Renew the Lease until that has failed for too long, or another candidate has it."""
        now = asyncio.get_running_loop().time
        candidacy = self._candidacy
        while now() < candidacy.leads_until:
            await asyncio.sleep(min(self._timings.retry_period, candidacy.leads_until - now()))
            try:
                async with asyncio.timeout_at(candidacy.leads_until):
                    await self._acquire_or_renew()
            except TimeoutError:
                break
            if candidacy.is_lost:
                break
        log.warning("%s lost the lease %s and stops leading", candidacy.identity, self._key)

    async def _acquire_or_renew(self) -> bool:
        """Whether this candidate has got or renewed the Lease. Errors of the API are logged and mean no."""
        try:
            return (self._candidacy.holds and await self._renew()) or await self._read_and_write()
        except (Conflict, AlreadyExists):
            return False  # another candidate was quicker
        except ClientError as error:
            log.debug("lease %s: %s", self._key, error)
            return False

    async def _renew(self) -> bool:
        """Renew the Lease without reading it. False if it has changed meanwhile."""
        try:
            return self._lease is not None and await self._write(self._lease)
        except (Conflict, NotFound):
            return False

    async def _read_and_write(self) -> bool:
        now = asyncio.get_running_loop().time
        try:
            lease = await self._client.get(LEASES, self._key.name, self._key.namespace)
        except NotFound:
            return await self._write(None)
        self._lease = lease
        self._candidacy.observe(lease.spec, now())
        return self._candidacy.may_write(now()) and await self._write(lease)

    async def _write(self, lease: Lease | None) -> bool:
        """Write the Lease, in the version `lease`; None: create it."""
        now = asyncio.get_running_loop().time
        sent, spec = now(), self._candidacy.next_spec(format_micro_time(time.time()))
        if lease is None:
            metadata = ObjectMeta(name=self._key.name, namespace=self._key.namespace)
            written = await self._client.create(LEASES, Lease(metadata=metadata, spec=spec))
        else:
            written = await self._client.update(LEASES, Lease(metadata=lease.metadata, spec=spec))
        self._lease = written
        self._candidacy.on_written(written.spec, sent, now())
        return True

    async def _release(self) -> None:
        if not self._candidacy.holds:
            return
        try:
            async with asyncio.timeout(_RELEASE_SECONDS):
                await release_lease(self._client, self._key, self._candidacy.identity)
        except (ClientError, TimeoutError) as error:
            log.debug("lease %s: not released: %s", self._key, error)


async def release_lease(client: ApiClient, key: ObjectKey, identity: str) -> bool:
    """Release the Lease if its holder is `identity`, whose work must have ended. Return whether it was released.

    Raises ClientError.
    """
    try:
        lease = await client.get(LEASES, key.name, key.namespace)
    except NotFound:
        return False
    if lease.spec.holder_identity != identity:
        return False
    spec = released(lease.spec, format_micro_time(time.time()))
    await client.update(LEASES, Lease(metadata=lease.metadata, spec=spec))
    return True

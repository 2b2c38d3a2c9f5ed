"""Leases: node heartbeats and leader election.

Clocks of different machines are never compared: a lease has expired when it has not changed for its duration, by the
clock of this process. Source: Kubernetes "Leases"; timing and takeover as in client-go's `leaderelection`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from bridgehead.objects.coordination import Lease, LeaseSpec
from bridgehead.objects.kinds import LEASES
from bridgehead.objects.meta import ObjectKey, ObjectMeta, OwnerReference
from bridgehead.objects.times import format_micro_time
from bridgehead.racing import race

from .api import ApiClient
from .errors import AlreadyExists, ClientError, Conflict, NotFound

log = logging.getLogger(__name__)


async def renew_lease(
    client: ApiClient,
    key: ObjectKey,
    *,
    holder: str,
    duration_seconds: int,
    owner: OwnerReference | None = None,
    now: Callable[[], float] = time.time,
) -> Lease:
    """Renew the Lease of `holder`: set renewTime and `owner`, and create the Lease if it is missing.

    For leases with only one writer, such as a node's in `kube-node-lease`. Raises ClientError.
    """
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": duration_seconds,
        "renewTime": format_micro_time(now()),
    }
    changes: dict[str, Any] = {"spec": spec}
    if owner is not None:  # the Node may have been recreated, and the Lease is deleted with its owner
        changes["metadata"] = {"ownerReferences": [msgspec.to_builtins(owner)]}
    try:
        return await client.patch(LEASES, key.name, key.namespace, changes)
    except NotFound:
        lease = Lease(
            metadata=ObjectMeta(
                name=key.name, namespace=key.namespace, owner_references=() if owner is None else (owner,)
            ),
            spec=LeaseSpec(
                holder_identity=holder, lease_duration_seconds=duration_seconds, renew_time=format_micro_time(now())
            ),
        )
        try:
            return await client.create(LEASES, lease)
        except AlreadyExists:
            return await client.patch(LEASES, key.name, key.namespace, changes)


class LeaderElector:
    """A candidate for the Lease `key`, called `identity`.

    Another candidate may take a lease that was not renewed for `lease_duration`; a leader that cannot renew for
    `renew_deadline` stops by itself; `retry_period` is the time between two tries. All are in seconds.
    """

    def __init__(
        self,
        client: ApiClient,
        key: ObjectKey,
        identity: str,
        *,
        lease_duration: int = 15,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
    ) -> None:
        self._client = client
        self._key = key
        self._identity = identity
        self._lease_duration = lease_duration
        self._renew_deadline = renew_deadline
        self._retry_period = retry_period
        self._seen: Lease | None = None
        self._seen_at = 0.0  # event loop time at which `_seen` was new
        self.is_leader = False

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait to be elected, then run `lead`, which is cancelled when the lease is lost.

        Returns when `lead` has ended or the lease is lost, so that the caller decides whether to try again. The lease
        is released at the end if possible.
        """
        while not await self._acquire_or_renew():  # noqa: ASYNC110 - the event is in another process
            await asyncio.sleep(self._retry_period)
        log.info("%s holds the lease %s and leads", self._identity, self._key)
        self.is_leader = True
        try:
            await race(lead(), self._keep())
        finally:
            self.is_leader = False
            await self._release()

    async def _keep(self) -> None:
        """Renew the lease until renewing has failed for too long."""
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        while True:
            await asyncio.sleep(self._retry_period)
            try:
                async with asyncio.timeout_at(renewed + self._renew_deadline):
                    if await self._acquire_or_renew():
                        renewed = loop.time()
                        continue
            except TimeoutError:
                log.warning("%s could not renew the lease %s and stops leading", self._identity, self._key)
                return
            if self._is_held_by_other() or loop.time() - renewed > self._renew_deadline:
                log.warning("%s lost the lease %s and stops leading", self._identity, self._key)
                return

    def _is_held_by_other(self) -> bool:
        holder = self._seen.spec.holder_identity if self._seen is not None else None
        return bool(holder) and holder != self._identity

    async def _acquire_or_renew(self) -> bool:
        """Whether this process holds the lease now. Errors of the API are logged and mean no."""
        try:
            return await self._try()
        except (Conflict, AlreadyExists):
            return False  # another candidate was quicker
        except ClientError as error:
            log.debug("lease %s: %s", self._key, error)
            return False

    async def _try(self) -> bool:
        now = asyncio.get_running_loop().time()
        moment = format_micro_time(time.time())
        try:
            lease = await self._client.get(LEASES, self._key.name, self._key.namespace)
        except NotFound:
            spec = self._spec(moment, moment, 0)
            metadata = ObjectMeta(name=self._key.name, namespace=self._key.namespace)
            self._observe(await self._client.create(LEASES, Lease(metadata=metadata, spec=spec)), now)
            return True
        self._observe(lease, now)
        held = lease.spec
        is_own = held.holder_identity == self._identity
        duration = held.lease_duration_seconds or self._lease_duration
        if not is_own and held.holder_identity and now < self._seen_at + duration:
            return False
        transitions = (held.lease_transitions or 0) + (0 if is_own else 1)
        spec = self._spec(held.acquire_time or moment if is_own else moment, moment, transitions)
        self._observe(await self._client.update(LEASES, Lease(metadata=lease.metadata, spec=spec)), now)
        return True

    def _spec(self, acquired: str, renewed: str, transitions: int) -> LeaseSpec:
        return LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=self._lease_duration,
            acquire_time=acquired,
            renew_time=renewed,
            lease_transitions=transitions,
        )

    def _observe(self, lease: Lease, now: float) -> None:
        if self._seen is None or self._seen.spec != lease.spec:
            self._seen, self._seen_at = lease, now

    async def _release(self) -> None:
        """Release the lease, so that another candidate need not wait for its expiry."""
        lease = self._seen
        if lease is None or lease.spec.holder_identity != self._identity:
            return
        spec = LeaseSpec(
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time=lease.spec.acquire_time,
            renew_time=format_micro_time(time.time()),
            lease_transitions=lease.spec.lease_transitions,
        )
        try:
            async with asyncio.timeout(2):
                await self._client.update(LEASES, Lease(metadata=lease.metadata, spec=spec))
        except (ClientError, TimeoutError) as error:
            log.debug("lease %s: not released: %s", self._key, error)

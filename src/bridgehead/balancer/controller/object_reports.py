"""Reports to the API: statuses of pools and Eips, Eips' finalizers, Events about objects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final

from bridgehead.balancer.allocation import Allocator
from bridgehead.balancer.configuration import Compiled, Rejection
from bridgehead.balancer.configuration_watch import ConfigurationWatch
from bridgehead.balancer.errors import ConfigurationInvalid
from bridgehead.client import ApiClient, EventRecorder
from bridgehead.client.errors import ClientError, Conflict, NotFound
from bridgehead.objects.metallb import IP_ADDRESS_POOLS, IPAddressPoolStatus
from bridgehead.objects.openelb import EIPS, Eip

from .pool_statuses import eip_status, idle_eip_status, idle_pool_status, pool_status
from .service_patches import EIP_FINALIZER

log = logging.getLogger(__name__)

_QUIET_SECONDS: Final = 0.1  # allocations that follow each other sooner are reported together
_RETRY_SECONDS: Final = 5.0


class Reporter:
    """Writes what changed since the last report. `changed` is called after each change."""

    def __init__(
        self,
        client: ApiClient,
        namespace: str,
        watch: ConfigurationWatch,
        allocator: Allocator,
        recorder: EventRecorder,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._watch = watch
        self._allocator = allocator
        self._recorder = recorder
        self._wake = asyncio.Event()
        self._has_pools = False
        self._reported: dict[str, Any] = {}  # the last status of each pool, by uid
        self._noted: frozenset[tuple[str, str]] = frozenset()  # uid and message of objects with a warning

    def changed(self) -> None:
        self._wake.set()

    def on_valid(self, compiled: Compiled) -> None:
        """Report that the configuration is valid, with warnings about single objects."""
        self._has_pools = True
        self._warn(compiled.rejections)
        self.changed()

    def on_invalid(self, errors: Iterable[ConfigurationInvalid]) -> None:
        """Report why the last valid configuration stays in force."""
        self._warn(dict.fromkeys(Rejection(error.about, str(error)) for error in errors if error.about is not None))
        self.changed()

    def _warn(self, rejections: Iterable[Rejection]) -> None:
        rejections = list(rejections)
        for rejection in rejections:
            if (rejection.about.uid, rejection.message) not in self._noted:
                self._recorder.record(
                    rejection.about, type="Warning", reason=rejection.reason, message=rejection.message
                )
        self._noted = frozenset((rejection.about.uid, rejection.message) for rejection in rejections)

    def report_again(self) -> None:
        """Write all reports anew: the objects that have them were deleted with their definitions."""
        self._reported.clear()
        self.changed()

    async def run(self) -> None:
        """Report until cancelled."""
        for informer in (self._watch.eips, self._watch.pools):
            informer.on_change(lambda old, new: self.changed())
        while True:
            await self._wake.wait()
            await asyncio.sleep(_QUIET_SECONDS)
            self._wake.clear()
            try:
                await self._report()
            except ClientError as error:
                log.warning("cannot report the state of pools, trying again: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
                self._wake.set()

    async def _report(self) -> None:
        for eip in list(self._watch.eips.items()):
            await self._keep_finalizer(eip)
        if not self._has_pools:
            return
        spaces = {(space.pool.source, space.pool.name): space for space in self._allocator.spaces()}
        for pool in list(self._watch.pools.items()):
            space = spaces.get(("metallb", pool.metadata.name))
            if space is not None and pool.metadata.namespace == self._namespace:
                await self._write_status(IP_ADDRESS_POOLS, pool, pool_status(space))
            elif pool.status != IPAddressPoolStatus():
                await self._write_status(IP_ADDRESS_POOLS, pool, idle_pool_status())
        for eip in list(self._watch.eips.items()):
            space = spaces.get(("openelb", eip.metadata.name))
            if space is not None:
                patch = eip_status(space, self._allocator.holders(space), eip.status.used)
                await self._write_status(EIPS, eip, patch)
            elif eip.status.usage or eip.status.ready:
                await self._write_status(EIPS, eip, idle_eip_status(eip.status.used))

    async def _write_status(self, kind: Any, obj: Any, status: dict[str, Any]) -> None:
        """Write a status that differs from the last one; a definition may lack some of its fields."""
        uid = obj.metadata.uid
        if self._reported.get(uid) == status:
            return
        try:
            await self._client.patch(
                kind, obj.metadata.name, obj.metadata.namespace, {"status": status}, subresource="status"
            )
        except NotFound:
            return
        self._reported[uid] = status

    async def _keep_finalizer(self, eip: Eip) -> None:
        """Add OpenELB's finalizer, and remove it when the Eip is being deleted: its addresses are given up at once."""
        finalizers, is_leaving = eip.metadata.finalizers, eip.metadata.deletion_timestamp is not None
        if (EIP_FINALIZER in finalizers) != is_leaving:
            return
        wanted = [name for name in finalizers if name != EIP_FINALIZER] + ([] if is_leaving else [EIP_FINALIZER])
        # The patch has the version, so that finalizers that others add meanwhile are not lost.
        metadata = {"finalizers": wanted, "resourceVersion": eip.metadata.resource_version}
        try:
            await self._client.patch(EIPS, eip.metadata.name, "", {"metadata": metadata})
        except (NotFound, Conflict):
            return  # the informer has it as it is now soon, and wakes this again

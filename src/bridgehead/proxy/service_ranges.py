"""Where the cluster gives out cluster IPs, by its ServiceCIDRs (KEP-1880), as kube-proxy learns it. `agent.py` runs it.

Clusters before v1.33 have no such objects, and whoever asks may not be allowed to see them. Then nothing is known.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from bridgehead.client import ApiClient, Informer
from bridgehead.client.errors import ApiError, ClientError
from bridgehead.objects.kinds import SERVICE_CIDRS
from bridgehead.objects.networking import ServiceCIDR

from .addresses import canonical_cidr

log = logging.getLogger(__name__)

UNREACHABLE_SECONDS = 1.0
REFUSED_SECONDS = 300.0  # clusters are upgraded, permissions given


class ServiceRanges:
    """`changed` is called when `cidrs` may be others than before."""

    def __init__(self, client: ApiClient, changed: Callable[[], None]) -> None:
        self._client = client
        self._objects: Informer[ServiceCIDR] = Informer(client, SERVICE_CIDRS)
        self._objects.on_change(lambda old, new: changed())
        self._answered = asyncio.Event()

    @property
    def cidrs(self) -> tuple[str, ...]:
        """Canonical; () when nothing is known."""
        texts = {canonical_cidr(text) for object_ in self._objects.items() for text in object_.spec.cidrs}
        return tuple(sorted(text for text in texts if text is not None))

    async def wait_answered(self) -> None:
        """Wait until the ranges are known, or it is known that nobody tells them."""
        await self._answered.wait()

    async def run(self) -> None:
        """Follow the ranges until cancelled."""
        is_told = False
        while True:
            try:
                await self._client.list(SERVICE_CIDRS)
                break
            except ApiError as error:
                log.log(
                    logging.DEBUG if is_told else logging.INFO,
                    "cluster IPs that nobody has are not dropped, since no ServiceCIDR tells their ranges: %s",
                    error,
                )
                is_told = True
                self._answered.set()
                await asyncio.sleep(REFUSED_SECONDS)
            except ClientError:  # whoever asks for Services says so
                await asyncio.sleep(UNREACHABLE_SECONDS)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._objects.run())
            await self._objects.wait_synced()
            self._answered.set()

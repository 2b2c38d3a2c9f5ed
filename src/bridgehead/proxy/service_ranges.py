"""The ranges of cluster IPs, from the cluster's ServiceCIDRs (KEP-1880), as in kube-proxy. `cluster_objects.py` has it.

Clusters before v1.33 have no such objects, and the proxy's user may lack the permission to list them. Then the ranges
are unknown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from bridgehead.client import ApiClient, Informer
from bridgehead.client.errors import ApiError, ClientError
from bridgehead.objects.kinds import SERVICE_CIDRS
from bridgehead.objects.networking import ServiceCIDR

from .address_texts import canonical_cidr

log = logging.getLogger(__name__)

UNREACHABLE_SECONDS = 1.0
REFUSED_SECONDS = 300.0  # until a retry: clusters are upgraded, permissions granted


class ServiceRanges:
    """Follows the ServiceCIDRs. `on_change` is called when `cidrs` may have changed."""

    def __init__(self, client: ApiClient, on_change: Callable[[], None]) -> None:
        self._client = client
        self._objects: Informer[ServiceCIDR] = Informer(client, SERVICE_CIDRS)
        self._objects.on_change(lambda old, new: on_change())
        self._answered = asyncio.Event()

    @property
    def cidrs(self) -> tuple[str, ...]:
        """The ranges, canonical and sorted; () if unknown."""
        texts = {canonical_cidr(text) for object_ in self._objects.items() for text in object_.spec.cidrs}
        return tuple(sorted(text for text in texts if text is not None))

    async def wait_answered(self) -> None:
        """Wait until the ranges are known, or are known to be unavailable."""
        await self._answered.wait()

    async def run(self) -> None:
        """Follow the ranges until cancelled."""
        is_logged = False
        while True:
            try:
                self._objects.take(await self._client.list(SERVICE_CIDRS))
                break
            except ApiError as error:
                log.log(
                    logging.DEBUG if is_logged else logging.INFO,
                    "packets to unassigned cluster IPs are not dropped, since the ServiceCIDRs are unavailable: %s",
                    error,
                )
                is_logged = True
                self._answered.set()
                await asyncio.sleep(REFUSED_SECONDS)
            except ClientError:  # the informer of Services logs it
                await asyncio.sleep(UNREACHABLE_SECONDS)
        self._answered.set()
        await self._objects.run()

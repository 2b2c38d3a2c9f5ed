"""Takes UDP flows that lead nowhere out of the kernel's connection tracking. `agent.py` calls it around each sync.

What is stale, and when it is worth a look, is decided in `conntrack.py`; the kernel is `network/conntrack.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from bridgehead.network.conntrack import Conntrack, Flow, is_local
from bridgehead.objects.discovery import EndpointSlice
from bridgehead.objects.meta import ObjectKey

from .changes import FrontendTable, Update
from .conntrack import StaleFlows
from .frontends import Family, ServiceFrontends

log = logging.getLogger(__name__)


class Flows(Protocol):
    """What is needed of the kernel; listing and deleting may block, and raise OSError."""

    def close(self) -> None: ...
    def list_udp(self, family: int, address: str = "", port: int = 0) -> list[Flow]: ...
    def delete(self, flows: Iterable[Flow]) -> int: ...


class FlowKeeper:
    """`note` each compiled Service, then `clean` when the rules are in the kernel."""

    def __init__(self, kernel: Flows | None = None, is_local: Callable[[str], bool] = is_local) -> None:
        self._stale = StaleFlows()
        self._kernel = kernel
        self._is_local = is_local
        self._has_failed = False

    def close(self) -> None:
        if self._kernel is not None:
            self._kernel.close()

    def note(
        self,
        service: ObjectKey,
        compiled: ServiceFrontends | None,
        slices: Iterable[EndpointSlice],
        update: Update,
    ) -> None:
        self._stale.note(service, compiled, slices, update)

    async def clean(self, table: FrontendTable, families: Sequence[Family], service_cidrs: Sequence[str]) -> int:
        """Remove what is stale; how many flows were. What fails is told once and tried again with the next change."""
        queries = self._stale.queries(families)
        if not queries:
            return 0
        try:
            kernel = self._kernel = self._kernel or Conntrack()
            # Listing may take long where there are many flows.
            flows = [flow for query in queries for flow in await asyncio.to_thread(kernel.list_udp, *query)]
            stale = self._stale.stale(flows, table, service_cidrs=service_cidrs, is_local=self._is_local)
            removed = await asyncio.to_thread(kernel.delete, stale) if stale else 0
        except OSError as error:
            log.log(
                logging.DEBUG if self._has_failed else logging.WARNING,
                "UDP flows to backends that are gone stay until they time out: %s",
                error,
            )
            self._has_failed = True
            return 0
        self._stale.settled()
        if removed:
            log.info("%d UDP flows led to backends that are gone; removed", removed)
        return removed

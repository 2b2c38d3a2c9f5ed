"""Everything that a configuration decides, put together: the zone and what feeds it, and who answers from it.

`process.py` makes one, and another when the configuration changes, which takes over when it is complete.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace

from bridgehead.client import ApiClient

from .agent import DnsAgent
from .cache import Cache
from .config import DnsConfig
from .forwarding import plan_forwarders, plan_search
from .metrics import DnsMetrics
from .resolver import Resolver
from .responder import Counts, Responder
from .zone import Zone

log = logging.getLogger(__name__)


class Engine:
    """One configuration at work. `counts` goes on from one to the next. Raises ConfigInvalid."""

    def __init__(self, client: ApiClient, config: DnsConfig, metrics: DnsMetrics, counts: Counts) -> None:
        self.config = config
        forwarders = plan_forwarders(config)
        settings = replace(config.zone, recursive=bool(forwarders))
        zone = Zone(settings, serial=int(time.time()))
        self.responder: Responder = Responder(zone, counts, is_recursive=bool(forwarders), has_autopath=config.autopath)
        self.cache: Cache = Cache(
            time.monotonic,
            entries=config.cache_entries,
            longest=config.cache_seconds,
            stale=config.serve_stale_seconds,
        )
        self.forwarders = tuple(forwarders.values())
        self._agent = DnsAgent(client, zone, metrics, follow_pods=config.autopath)
        self.resolver = Resolver(
            self.responder,
            forwarders,
            self.cache,
            namespace_of=self._agent.namespace_of,
            search=plan_search(config) if config.autopath else (),
        )
        self._ready = asyncio.Event()

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        begun = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._agent.run())
            await self._agent.wait_synced()
            self.responder.set_ready()
            self._ready.set()
            log.info("ready after %.2f s", time.monotonic() - begun)

    async def wait_ready(self) -> None:
        """Wait until the zone is complete."""
        await self._ready.wait()

"""Everything that a configuration decides, put together: the zone and what feeds it, and who answers from it.

`process.py` makes one, and another when the configuration changes. The names of the cluster, which cost time to gather,
go from one to the next where the change does not concern them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace

from bridgehead.client import ApiClient

from .agent import DnsAgent
from .cache import Cache, make_keeping
from .config import DnsConfig
from .connections import Server
from .forwarding import plan_forwarders, plan_search
from .hosts import HostTable
from .metrics import DnsMetrics
from .resolver import Resolver
from .responder import Responder
from .rewriting import Rewriter
from .templates import Templates
from .upstream import Forwarder
from .zone import Zone, ZoneSettings

log = logging.getLogger(__name__)


class Cluster:
    """A zone and what keeps it up to date, for as long as `run` runs."""

    def __init__(self, client: ApiClient, settings: ZoneSettings, metrics: DnsMetrics, *, follow_pods: bool) -> None:
        self.zone = Zone(settings, serial=int(time.time()))
        self.follow_pods = follow_pods
        self._agent = DnsAgent(client, self.zone, metrics, follow_pods=follow_pods)

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        begun = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._agent.run())
            await self._agent.wait_synced()
            log.info("ready after %.2f s", time.monotonic() - begun)

    async def wait_ready(self) -> None:
        """Wait until the zone is complete."""
        await self._agent.wait_synced()

    def namespace_of(self, address: str) -> str | None:
        """Of the pod that has this address for itself."""
        return self._agent.namespace_of(address)


class Engine:
    """One configuration at work. The cluster of the one `before` goes on where it fits.

    Raises ConfigInvalid.
    """

    def __init__(
        self, client: ApiClient, config: DnsConfig, metrics: DnsMetrics, before: Cluster | None = None
    ) -> None:
        forwarders = plan_forwarders(config, self._is_us)
        settings = replace(config.zone, recursive=bool(forwarders))
        if before is None or (before.zone.settings, before.follow_pods) != (settings, config.autopath):
            before = Cluster(client, settings, metrics, follow_pods=config.autopath)
        self.config = config
        self.cluster = before
        self.responder: Responder = Responder(
            self.cluster.zone,
            size=config.udp_size,
            is_recursive=bool(forwarders),
            has_autopath=config.autopath,
            hosts=HostTable(config.hosts, ra=bool(forwarders)) if config.hosts else None,
            templates=Templates(config.templates, ra=bool(forwarders)) if config.templates else None,
            rewriter=Rewriter(config.rewrites) if config.rewrites else None,
            transfer_to=config.transfer_to,
        )
        self.cache: Cache = Cache(
            time.monotonic,
            entries=config.cache_entries,
            longest=config.cache_seconds,
            longest_negative=config.cache_negative_seconds,
            may_keep=make_keeping(config.cached, config.uncached),
            stale=config.serve_stale_seconds,
        )
        self.forwarders = tuple(way for way in forwarders.values() if isinstance(way, Forwarder))
        self.resolver = Resolver(
            self.responder,
            forwarders,
            self.cache,
            namespace_of=self.cluster.namespace_of,
            search=plan_search(config) if config.autopath else (),
        )

    def _is_us(self, server: Server) -> bool:
        """Whether this is the Service under which the cluster reaches us."""
        return server.port == 53 and server.host in self.cluster.zone.server_addresses

    def close(self) -> None:
        """Another answers from now on. Open questions are still answered."""
        for forwarder in self.forwarders:
            forwarder.close()

    async def become_ready(self) -> None:
        """Return when the zone is complete, and is answered from."""
        await self.cluster.wait_ready()
        self.responder.set_ready()

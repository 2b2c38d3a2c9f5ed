"""One configuration at work: the zone, the agent that keeps it up to date, the responder and the resolver.

`process.py` makes an engine, and another when the configuration changes. The zone, which takes time to fill, passes
from one to the next where the change does not concern it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace

from bridgehead.client import ApiClient

from .agent import DnsAgent
from .answering import HostTable, Resolver, Responder, Rewriter, Templates
from .config import DnsConfig, Server, ZoneSettings
from .own_addresses import own_addresses
from .serving import DnsMetrics
from .upstreams import Cache, Forwarder, plan_forwarders, plan_search
from .zone import Zone

log = logging.getLogger(__name__)


class Cluster:
    """A zone, and the agent that keeps it up to date while `run` runs."""

    def __init__(
        self,
        client: ApiClient,
        settings: ZoneSettings,
        metrics: DnsMetrics,
        *,
        own_addresses: tuple[str, ...] = (),
        follow_pods: bool,
    ) -> None:
        self.zone = Zone(settings, serial=int(time.time()))
        self.follow_pods = follow_pods
        self._agent = DnsAgent(client, self.zone, metrics, own_addresses=own_addresses, follow_pods=follow_pods)

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        start = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._agent.run())
            await self._agent.wait_synced()
            log.info("ready after %.2f s", time.monotonic() - start)

    async def wait_ready(self) -> None:
        """Wait until the zone is complete."""
        await self._agent.wait_synced()

    def namespace_of(self, address: str) -> str | None:
        """Return the namespace of the pod with this address; None for addresses of nodes and unknown ones."""
        return self._agent.namespace_of(address)


class Engine:
    """One configuration at work. Uses the `previous` cluster if the settings of its zone are equal.

    Raises ConfigInvalid.
    """

    def __init__(
        self, client: ApiClient, config: DnsConfig, metrics: DnsMetrics, previous: Cluster | None = None
    ) -> None:
        forwarders = plan_forwarders(config, self._is_self)
        settings = replace(config.zone, recursive=bool(forwarders))
        if previous is None or (previous.zone.settings, previous.follow_pods) != (settings, config.autopath):
            own = own_addresses(config.listen)
            previous = Cluster(client, settings, metrics, own_addresses=own, follow_pods=config.autopath)
        self.config = config
        self.cluster = previous
        self.responder: Responder = Responder(
            self.cluster.zone,
            size=config.udp_size,
            is_recursive=bool(forwarders),
            has_autopath=config.autopath,
            hosts=HostTable(config.hosts, ra=bool(forwarders)) if config.hosts else None,
            templates=Templates(config.templates, ra=bool(forwarders)) if config.templates else None,
            rewriter=Rewriter(config.rewrites) if config.rewrites else None,
            transfer_to=config.transfer_to,
            falls_through=config.falls_through,
            is_minimal=config.is_minimal,
            has_minimal_any=config.has_minimal_any,
        )
        self.cache: Cache = Cache(time.monotonic, config.cache, config.block_caches)
        self.forwarders = tuple(target for target in forwarders.values() if isinstance(target, Forwarder))
        self.resolver = Resolver(
            self.responder,
            forwarders,
            self.cache,
            namespace_of=self.cluster.namespace_of,
            search=plan_search(config) if config.autopath else (),
        )

    def _is_self(self, server: Server) -> bool:
        """Whether this is the cluster IP of the Service whose endpoint this server is."""
        return server.port == 53 and server.host in self.cluster.zone.server_addresses

    def close(self) -> None:
        """Stop: another engine answers from now on. Queries that wait for upstreams are still answered."""
        for forwarder in self.forwarders:
            forwarder.close()

    async def become_ready(self) -> None:
        """Wait until the zone is complete, and answer from it."""
        await self.cluster.wait_ready()
        self.responder.set_ready()

"""One DNS process: its sockets and pages, and the configuration at work behind them. `cli/dns.py` calls this."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable

from bridgehead.client import ApiClient

from .agent import DnsAgent
from .config import Address, DnsConfig
from .engine import Engine
from .errors import ConfigInvalid
from .metrics import DnsMetrics
from .query_log import log_query
from .responder import Counts
from .server import DnsServer
from .serving import Routes, health_routes, metrics_routes, ready_routes, serve
from .zone import Zone
from .zone_file import zone_file

log = logging.getLogger(__name__)


async def run(
    client: ApiClient,
    config: DnsConfig,
    number: int = 0,
    *,
    changes: AsyncIterator[DnsConfig] | None = None,
    bound: Callable[[int], None] | None = None,
) -> None:
    """Serve until cancelled. `number` counts processes; `bound` is told the port of each address.

    `changes` are later configurations; each takes over when it is ready to, and no query is lost. Raises DnsError.
    """
    metrics = DnsMetrics()
    counts = Counts()
    engine = Engine(client, config, metrics, counts)
    tell = log_query if config.log_queries else None
    servers = [DnsServer(engine.responder, engine.resolver.resolve, tell=tell) for _ in config.listen]
    shared = config.processes > 1
    try:
        for server, (host, port) in zip(servers, config.listen, strict=True):
            taken = server.bind(host or "0.0.0.0", port, shared=shared)
            if bound is not None:
                bound(taken)
        metrics.watch(lambda: engine, servers)
        pages: list[tuple[Address | None, Routes]] = [
            (config.health, health_routes()),
            (config.ready, ready_routes(lambda: engine.responder.is_ready)),
            (config.metrics and (config.metrics[0], config.metrics[1] + number), metrics_routes(metrics.exposition)),
        ]
        async with asyncio.TaskGroup() as tasks:
            for server in servers:
                tasks.create_task(server.run())
            for address, routes in pages:
                if address is not None:
                    tasks.create_task(serve(address, routes, shared=shared))
            working = tasks.create_task(engine.run())
            async for changed in changes or _never():
                try:
                    fresh = Engine(client, changed, metrics, counts)
                except ConfigInvalid as error:
                    log.error("the new configuration is not used: %s", error)
                    continue
                _warn_of_fixed(config, changed)
                taking_over = tasks.create_task(fresh.run())
                await fresh.wait_ready()
                for server in servers:
                    server.use(fresh.responder, fresh.resolver.resolve)
                working.cancel()
                engine, working = fresh, taking_over
                log.info("the new configuration is in use")
    finally:
        for server in servers:
            server.close()


async def _never() -> AsyncIterator[DnsConfig]:
    await asyncio.Event().wait()
    yield DnsConfig()


async def follow_file(
    read: Callable[[], DnsConfig], first: DnsConfig, seconds: float = 2.0
) -> AsyncIterator[DnsConfig]:
    """What `read` gives each time it gives something else. A file that is not sound is told of once and passed over."""
    last, told = first, ""
    while True:
        await asyncio.sleep(seconds)
        try:
            fresh = read()
        except ConfigInvalid as error:
            if str(error) != told:
                log.error("the new configuration is not used: %s", error)
            told = str(error)
            continue
        told = ""
        if fresh != last:
            last = fresh
            yield fresh


async def dump(client: ApiClient, config: DnsConfig) -> str:
    """The whole zone as a zone file."""
    zone = Zone(config.zone, serial=int(time.time()))
    agent = DnsAgent(client, zone, DnsMetrics())
    following = asyncio.create_task(agent.run())
    try:
        await agent.wait_synced()
        return zone_file(zone)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def _warn_of_fixed(old: DnsConfig, new: DnsConfig) -> None:
    """What a process has taken at its start stays as it is until the next one."""
    for field in ("listen", "health", "ready", "metrics", "log_queries"):
        if getattr(old, field) != getattr(new, field):
            log.warning("the new configuration's %s is not used before the next start", field)

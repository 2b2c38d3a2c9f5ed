"""One DNS process: the parts put together and run. `cli/dns.py` calls this."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from bridgehead.client import ApiClient

from . import wire
from .agent import DnsAgent
from .cache import Cache
from .config import Address, DnsConfig
from .errors import ConfigInvalid
from .metrics import DnsMetrics
from .records import is_name
from .resolver import Resolver
from .responder import Responder
from .server import DnsServer
from .serving import Routes, health_routes, metrics_routes, ready_routes, serve
from .upstream import Forwarder, Server, parse_resolv_conf, parse_search
from .zone import Zone
from .zone_file import zone_file

log = logging.getLogger(__name__)


async def run(
    client: ApiClient, config: DnsConfig, number: int = 0, bound: Callable[[int], None] | None = None
) -> None:
    """Serve until cancelled. `number` counts processes; `bound` is told the port of each address. Raises DnsError."""
    forwarders = _forwarders(config)
    settings = replace(config.zone, recursive=bool(forwarders))
    zone = Zone(settings, serial=int(time.time()))
    responder = Responder(zone, is_recursive=bool(forwarders), has_autopath=config.autopath)
    cache = Cache(
        time.monotonic,
        entries=config.cache_entries,
        longest=config.cache_seconds,
        stale=config.serve_stale_seconds,
    )
    metrics = DnsMetrics()
    agent = DnsAgent(client, zone, metrics, follow_pods=config.autopath)
    search = _search_list(config) if config.autopath else ()
    resolver = Resolver(responder, forwarders, cache, namespace_of=agent.namespace_of, search=search)
    servers = [DnsServer(responder, resolver.resolve) for _ in config.listen]
    shared = config.processes > 1
    try:
        for server, (host, port) in zip(servers, config.listen, strict=True):
            taken = server.bind(host or "0.0.0.0", port, shared=shared)
            if bound is not None:
                bound(taken)
        metrics.watch(responder, servers, cache, forwarders.values())
        async with asyncio.TaskGroup() as tasks:
            for server in servers:
                tasks.create_task(server.run())
            tasks.create_task(agent.run())
            tasks.create_task(_get_ready(agent, responder))
            pages: list[tuple[Address | None, Routes]] = [
                (config.health, health_routes()),
                (config.ready, ready_routes(lambda: responder.is_ready)),
                (
                    config.metrics and (config.metrics[0], config.metrics[1] + number),
                    metrics_routes(metrics.exposition),
                ),
            ]
            for address, routes in pages:
                if address is not None:
                    tasks.create_task(serve(address, routes, shared=shared))
    finally:
        for server in servers:
            server.close()


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


def choose_upstreams(config: DnsConfig) -> tuple[Server, ...]:
    """Whom to ask: never ourselves. Raises ConfigInvalid when that was wished for."""
    if config.upstreams is not None:
        _refuse_ourselves(config.upstreams, config)
        return config.upstreams
    try:
        found = parse_resolv_conf(Path(config.resolv_conf).read_text())
    except OSError as error:
        raise ConfigInvalid(
            f"{config.resolv_conf}: {error.strerror}; name upstreams, or say that there are none"
        ) from error
    servers = []
    for server in found:
        if _is_us(server, config):
            log.warning("%s names %s, which is this server itself; left out", config.resolv_conf, server)
        else:
            servers.append(server)
    if not servers:
        log.warning("%s names no upstream: outside names are refused", config.resolv_conf)
    return tuple(servers)


def _refuse_ourselves(servers: Iterable[Server], config: DnsConfig) -> None:
    for server in servers:
        if _is_us(server, config):
            raise ConfigInvalid(f"upstream {server} is this server itself: a question would go round for ever")


def _is_us(server: Server, config: DnsConfig) -> bool:
    for host, port in config.listen:
        if port != server.port:
            continue
        if host == server.host or (host in ("", "0.0.0.0", "::") and _is_local(server.host)):
            return True
    return False


def _is_local(host: str) -> bool:
    """Whether packets to this address would come back to this machine. Nothing is sent."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True


def _forwarders(config: DnsConfig) -> dict[bytes, Forwarder]:
    """By domain in wire form."""
    upstreams = choose_upstreams(config)
    found = {b"\0": Forwarder(upstreams, time.monotonic)} if upstreams else {}
    for domain, servers in config.stub_domains:
        _refuse_ourselves(servers, config)
        found[wire.encode_name(domain.lower())] = Forwarder(servers, time.monotonic)
    return found


def _search_list(config: DnsConfig) -> tuple[bytes, ...]:
    """The node's own search domains, which stand behind the cluster's in a pod's resolv.conf."""
    try:
        domains = parse_search(Path(config.resolv_conf).read_text())
    except OSError:
        return ()
    return tuple(wire.encode_name(domain) for domain in domains if is_name(domain))


async def _get_ready(agent: DnsAgent, responder: Responder) -> None:
    begun = time.monotonic()
    await agent.wait_synced()
    responder.set_ready()
    log.info("ready after %.2f s", time.monotonic() - begun)

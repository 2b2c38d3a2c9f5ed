"""One DNS process: its sockets, its pages, and the configuration at work behind them. `cli/dns.py` calls this."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator

from bridgehead.client import ApiClient, running
from bridgehead.objects.addresses import join_host_port
from bridgehead.pages import Page, Routes, metrics_page, serve

from .config import Address, DnsConfig
from .errors import CannotServe, ConfigInvalid
from .instance import Cluster, Instance
from .serving import DnsMetrics, DnsServer, Holder, Limits, LocalHolder, LogQuery, QueryLog, open_sockets
from .zone import Zone, zone_file
from .zone_sync import ZoneSync

log = logging.getLogger(__name__)

_IN_FLIGHT_SECONDS = 0.5  # after the node's address is released, in which queries arrive that were sent before


async def run(
    client: ApiClient,
    config: DnsConfig,
    number: int = 0,
    *,
    changes: AsyncIterator[DnsConfig | ConfigInvalid] | None = None,
    on_bound: Callable[[int], None] | None = None,
    ending: asyncio.Event | None = None,
    holder: Holder | None = None,
) -> None:
    """Serve until cancelled, or until `ending` is set and `lameduck_seconds` have passed. Raises DnsError.

    `number` counts processes from 0. `on_bound` gets the port of each listening address; several processes do not call
    it, because they bind only when they have answers (`check_addresses` tries before). `holder` holds the addresses
    that are served on the node; by default this process does.

    `changes` are later configurations: each takes over when its zone is complete, without a lost query; an invalid one
    is logged and skipped. After `ending` is set, /ready fails and queries are still answered, so that clients can turn
    to other servers.
    """
    worker = _Worker(client, config)
    ending = asyncio.Event() if ending is None else ending
    shared = config.processes > 1
    if holder is None and config.node_local:
        holder = LocalHolder(config.node_local)

    def ready_page() -> Page:
        reason = "Shutting down" if ending.is_set() else worker.unready_reason()
        return Page(503, reason.encode()) if reason else Page(200, b"OK")

    metrics = config.metrics and (config.metrics[0], config.metrics[1] + number)
    pages: list[tuple[Address | None, Routes]] = [
        (config.health, {"/health": lambda: Page(200, b"OK")}),
        (config.ready, {"/ready": ready_page}),
        (metrics, {"/metrics": metrics_page(worker.metrics.registry)}),
    ]
    try:
        if not shared:
            for port in worker.bind():
                if on_bound is not None:
                    on_bound(port)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as tasks:
                least = _IN_FLIGHT_SECONDS if holder is not None else 0
                tasks.create_task(_limit_after(ending, worker, limit, least=least))
                if holder is not None:
                    tasks.create_task(holder.run(worker.has_answers, ending))
                tasks.create_task(worker.serve(tasks, shared=shared))
                for address, routes in pages:
                    if address is not None:
                        tasks.create_task(_serve_pages(address, routes, shared=shared))
                worker.start(worker.instance, tasks)
                async for changed in changes or _never():
                    worker.reconfigure(changed, tasks)
    finally:
        worker.instance.close()
        for server in worker.servers:
            server.close()


async def _serve_pages(address: Address, routes: Routes, *, shared: bool) -> None:
    """Serve until cancelled. Raises CannotServe."""
    try:
        await serve(address, routes, shared=shared)
    except OSError as error:
        text = f"cannot serve {', '.join(routes)} on {join_host_port(*address)}: {error.strerror}"
        raise CannotServe(text) from error


async def _limit_after(ending: asyncio.Event, worker: _Worker, limit: asyncio.Timeout, *, least: float) -> None:
    """Let the limit expire `lameduck_seconds` after `ending` is set, `least` seconds at least."""
    await ending.wait()
    seconds = max(worker.instance.config.lameduck_seconds, least)
    if seconds:
        log.info("shutting down; queries are answered for %g s more", seconds)
    limit.reschedule(asyncio.get_running_loop().time() + seconds)


class _Worker:
    """The sockets of a process, and the instance that answers there at the moment."""

    def __init__(self, client: ApiClient, config: DnsConfig) -> None:
        self._client = client
        self._first = config
        self.metrics = DnsMetrics()
        self.instance = Instance(client, config, self.metrics)
        self._addresses = list(_listening_addresses(config))
        self.servers = [self._server(self.instance) for _ in self._addresses]
        self._zone_is_complete = asyncio.Event()
        self.has_answers = asyncio.Event()  # at all addresses
        self._clusters: dict[Cluster, asyncio.Task[None]] = {}
        self._taking_over: asyncio.Task[None] | None = None
        self.metrics.watch(lambda: self.instance, self.servers)

    def _server(self, instance: Instance) -> DnsServer:
        limits = Limits(concurrent=instance.config.max_concurrent)
        return DnsServer(instance.responder, instance.resolver.resolve, limits, log_query=_query_log(instance.config))

    def unready_reason(self) -> str:
        """Return what /ready shows, "" when ready. An API server that is lost after the first full sync is no reason.

        Addresses that several processes share are bound only when there are answers, so a ready process answers there.
        """
        return "" if self.has_answers.is_set() else "kubernetes"

    def bind(self, *, shared: bool = False) -> Iterator[int]:
        """Bind the addresses one by one, and yield their ports. Raises CannotServe."""
        for server, (host, port) in zip(self.servers, self._addresses, strict=True):
            yield server.bind(host, port, shared=shared, freebind=host in self._first.node_local)

    async def serve(self, tasks: asyncio.TaskGroup, *, shared: bool) -> None:
        """Serve at the addresses. Raises CannotServe.

        The kernel spreads queries over all processes that share an address, so each binds it only when it has answers.
        `check_addresses` has shown by then that it can.
        """
        if shared:
            await self._zone_is_complete.wait()
            list(self.bind(shared=True))
        for server in self.servers:
            tasks.create_task(server.run())
        await self._zone_is_complete.wait()
        self.has_answers.set()

    def reconfigure(self, config: DnsConfig | ConfigInvalid, tasks: asyncio.TaskGroup) -> None:
        """Answer by this configuration as soon as its zone is complete, and by the present one until then."""
        try:
            if isinstance(config, ConfigInvalid):
                raise config
            fresh = Instance(self._client, config, self.metrics, self.instance.cluster)
        except ConfigInvalid as error:
            self.metrics.failed_reloads.inc()
            log.error("the new configuration is not used: %s", error)
            return
        _warn_of_fixed_settings(self._first, config)
        self.start(fresh, tasks)

    def start(self, instance: Instance, tasks: asyncio.TaskGroup) -> None:
        """Let an instance take over when it is ready. An earlier instance that is not ready yet is dropped."""
        if self._taking_over is not None:
            self._taking_over.cancel()
        self._stop_unused_clusters()
        if instance.cluster not in self._clusters:
            self._clusters[instance.cluster] = tasks.create_task(instance.cluster.run())
        self._taking_over = tasks.create_task(self._take_over(instance))

    async def _take_over(self, instance: Instance) -> None:
        await instance.become_ready()
        config = instance.config
        for server in self.servers:
            server.use(instance.responder, instance.resolver.resolve, _query_log(config), config.max_concurrent)
        if instance is not self.instance:
            self.instance.close()
            log.info("the new configuration is in use")
        self.instance = instance
        self._zone_is_complete.set()
        self._stop_unused_clusters()

    def _stop_unused_clusters(self) -> None:
        for cluster in set(self._clusters) - {self.instance.cluster}:
            self._clusters.pop(cluster).cancel()


def _query_log(config: DnsConfig) -> LogQuery | None:
    return QueryLog(config.log_classes) if config.log_queries else None


def _listening_addresses(config: DnsConfig) -> Iterator[Address]:
    """Yield the addresses to bind. The empty host stands for 0.0.0.0 and, if the kernel has IPv6, for ::.

    A server of addresses on the node binds them, and others only where they are configured by name.
    """
    for host in config.node_local:
        yield host, 53
    for host, port in config.listen:
        if config.node_local and (not host or host in config.node_local):
            continue
        if host:
            yield host, port
        else:
            yield "0.0.0.0", port
            if _has_ipv6():
                yield "::", port


def check_addresses(config: DnsConfig) -> None:
    """Bind every address and close it again, before several processes start. Raises CannotServe."""
    for host, port in _listening_addresses(config):
        for bound in open_sockets(host, port, shared=config.processes > 1, freebind=host in config.node_local):
            bound.close()


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::", 0))
    except OSError:
        return False
    return True


async def _never() -> AsyncIterator[DnsConfig]:
    await asyncio.Event().wait()
    yield DnsConfig()


async def watch_file(
    read: Callable[[], DnsConfig], first: DnsConfig, seconds: float = 1.0
) -> AsyncIterator[DnsConfig | ConfigInvalid]:
    """Call `read` every `seconds`, and yield each result that differs from the last. An error is yielded once.

    `read` runs in a thread, so that queries are answered while it parses large files.
    """
    last, last_error = first, ""
    while True:
        await asyncio.sleep(seconds)
        try:
            fresh = await asyncio.to_thread(read)
        except ConfigInvalid as error:
            if str(error) != last_error:
                last_error = str(error)
                yield error
            continue
        last_error = ""
        if fresh != last:
            last = fresh
            yield fresh


async def dump(client: ApiClient, config: DnsConfig) -> str:
    """Return the whole zone as a zone file."""
    zone = Zone(config.zone, serial=int(time.time()))
    zone_sync = ZoneSync(client, zone, DnsMetrics())
    async with running(zone_sync):
        await zone_sync.wait_synced()
        return zone_file(zone)


def _warn_of_fixed_settings(old: DnsConfig, new: DnsConfig) -> None:
    """Log settings that a running process cannot change."""
    for field in ("listen", "node_local", "health", "ready", "metrics", "processes"):
        if getattr(old, field) != getattr(new, field):
            log.warning("the new configuration's %s is not used before the next start", field)

"""One DNS process: its sockets and pages, and the configuration at work behind them. `cli/dns.py` calls this."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator

from bridgehead.client import ApiClient, running
from bridgehead.pages import Routes

from .agent import DnsAgent
from .config import Address, DnsConfig
from .engine import Cluster, Engine
from .errors import ConfigInvalid
from .metrics import DnsMetrics
from .node_local import Hold, HoldHere
from .query_log import QueryLog
from .server import DnsServer, Limits, Tell, take
from .serving import health_routes, metrics_routes, ready_routes, serve
from .zone import Zone
from .zone_file import zone_file

log = logging.getLogger(__name__)

_UNDER_WAY_SECONDS = 0.5  # in which queries arrive that were sent before they were led elsewhere


async def run(
    client: ApiClient,
    config: DnsConfig,
    number: int = 0,
    *,
    changes: AsyncIterator[DnsConfig | ConfigInvalid] | None = None,
    bound: Callable[[int], None] | None = None,
    ending: asyncio.Event | None = None,
    hold: Hold | None = None,
) -> None:
    """Serve until cancelled. `number` counts processes; `bound` is told the port of each address,
    unless several share it: then they are tried before (`try_addresses`).

    `hold` is who holds the addresses that are served on the node; without it this process does.

    `changes` are later configurations; each takes over when it is ready to, and no query is lost; what is not sound is
    told of and passed over. After `ending` is set we are not ready, but answer for `lameduck_seconds`, so that whoever
    sends us queries can turn to others; then this returns. Raises DnsError.
    """
    work = _Work(client, config)
    ending = asyncio.Event() if ending is None else ending
    shared = config.processes > 1
    if hold is None and config.node_local:
        hold = HoldHere(config.node_local)
    pages: list[tuple[Address | None, Routes]] = [
        (config.health, health_routes()),
        (config.ready, ready_routes(lambda: "Shutting down" if ending.is_set() else work.obstacle())),
        (config.metrics and (config.metrics[0], config.metrics[1] + number), metrics_routes(work.metrics.exposition)),
    ]
    try:
        if not shared:
            for taken in work.bind():
                if bound is not None:
                    bound(taken)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as tasks:
                tasks.create_task(_leave(ending, work, limit, least=_UNDER_WAY_SECONDS if hold is not None else 0))
                if hold is not None:
                    tasks.create_task(hold.run(work.answers, ending))
                tasks.create_task(work.answer(tasks, shared=shared))
                for address, routes in pages:
                    if address is not None:
                        tasks.create_task(serve(address, routes, shared=shared))
                work.begin(work.engine, tasks)
                async for changed in changes or _never():
                    work.change(changed, tasks)
    finally:
        work.engine.close()
        for server in work.servers:
            server.close()


async def _leave(ending: asyncio.Event, work: _Work, limit: asyncio.Timeout, *, least: float) -> None:
    await ending.wait()
    seconds = max(work.engine.config.lameduck_seconds, least)
    if seconds:
        log.info("shutting down, after %g s in which queries are still answered", seconds)
    limit.reschedule(asyncio.get_running_loop().time() + seconds)


class _Work:
    """The sockets of a process, and the engine that answers there at the moment."""

    def __init__(self, client: ApiClient, config: DnsConfig) -> None:
        self._client = client
        self._first = config
        self.metrics = DnsMetrics()
        self.engine = Engine(client, config, self.metrics)
        self._places = list(_places(config))
        self.servers = [self._server(self.engine) for _ in self._places]
        self._has_answers = asyncio.Event()
        self.answers = asyncio.Event()  # at all addresses
        self._followed: dict[Cluster, asyncio.Task[None]] = {}
        self._taking_over: asyncio.Task[None] | None = None
        self.metrics.watch(lambda: self.engine, self.servers)

    def _server(self, engine: Engine) -> DnsServer:
        limits = Limits(open_questions=engine.config.most_open)
        return DnsServer(engine.responder, engine.resolver.resolve, limits, tell=_tell(engine.config))

    def obstacle(self) -> str:
        """Why we are not ready, "" if we are. An API server that goes away after the first full sync is no reason.

        Addresses that several processes share are taken only then: whoever hears that we are ready is answered there.
        """
        return "" if self.answers.is_set() else "kubernetes"

    def bind(self, *, shared: bool = False) -> Iterator[int]:
        """Take the addresses; their ports. Raises CannotServe."""
        for server, (host, port) in zip(self.servers, self._places, strict=True):
            yield server.bind(host, port, shared=shared, at_once=host in self._first.node_local)

    async def answer(self, tasks: asyncio.TaskGroup, *, shared: bool) -> None:
        """Serve at the addresses that were taken.

        Where they are shared any process may get any query. So none takes its share before it has answers; that it can
        take the addresses is known by then (`try_addresses`). Raises CannotServe.
        """
        if shared:
            await self._has_answers.wait()
            list(self.bind(shared=True))
        for server in self.servers:
            tasks.create_task(server.run())
        await self._has_answers.wait()
        self.answers.set()

    def change(self, config: DnsConfig | ConfigInvalid, tasks: asyncio.TaskGroup) -> None:
        """Answer by this configuration as soon as its zone is complete; until then by the one before."""
        try:
            if isinstance(config, ConfigInvalid):
                raise config
            fresh = Engine(self._client, config, self.metrics, self.engine.cluster)
        except ConfigInvalid as error:
            self.metrics.failed_reloads.inc()
            log.error("the new configuration is not used: %s", error)
            return
        _warn_of_fixed(self._first, config)
        self.begin(fresh, tasks)

    def begin(self, engine: Engine, tasks: asyncio.TaskGroup) -> None:
        """Let it take over when it is ready. One that was not ready yet never will."""
        if self._taking_over is not None:
            self._taking_over.cancel()
        self._end_others()
        if engine.cluster not in self._followed:
            self._followed[engine.cluster] = tasks.create_task(engine.cluster.run())
        self._taking_over = tasks.create_task(self._take_over(engine))

    async def _take_over(self, engine: Engine) -> None:
        await engine.become_ready()
        for server in self.servers:
            server.use(engine.responder, engine.resolver.resolve, _tell(engine.config), engine.config.most_open)
        if engine is not self.engine:
            self.engine.close()
            log.info("the new configuration is in use")
        self.engine = engine
        self._has_answers.set()
        self._end_others()

    def _end_others(self) -> None:
        """Only the cluster that is answered from is followed on."""
        for cluster in set(self._followed) - {self.engine.cluster}:
            self._followed.pop(cluster).cancel()


def _tell(config: DnsConfig) -> Tell | None:
    return QueryLog(config.log_classes) if config.log_queries else None


def _places(config: DnsConfig) -> Iterator[Address]:
    """The addresses to take. Every address means that of both families, if the kernel has both.

    Who serves addresses on the node listens there, and at others only where they are named.
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


def try_addresses(config: DnsConfig) -> None:
    """Take every address and let go of it, before the first of several processes answers there. Raises CannotServe."""
    for host, port in _places(config):
        for taken in take(host, port, shared=config.processes > 1, at_once=host in config.node_local):
            taken.close()


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


async def follow_file(
    read: Callable[[], DnsConfig], first: DnsConfig, seconds: float = 1.0
) -> AsyncIterator[DnsConfig | ConfigInvalid]:
    """What `read` gives each time it gives something else, or why it gives nothing, once each."""
    last, told = first, ""
    while True:
        await asyncio.sleep(seconds)
        try:
            fresh = read()
        except ConfigInvalid as error:
            if str(error) != told:
                told = str(error)
                yield error
            continue
        told = ""
        if fresh != last:
            last = fresh
            yield fresh


async def dump(client: ApiClient, config: DnsConfig) -> str:
    """The whole zone as a zone file."""
    zone = Zone(config.zone, serial=int(time.time()))
    agent = DnsAgent(client, zone, DnsMetrics())
    async with running(agent):
        await agent.wait_synced()
        return zone_file(zone)


def _warn_of_fixed(old: DnsConfig, new: DnsConfig) -> None:
    """What a process has taken at its start stays as it is until the next one."""
    for field in ("listen", "node_local", "health", "ready", "metrics", "processes"):
        if getattr(old, field) != getattr(new, field):
            log.warning("the new configuration's %s is not used before the next start", field)

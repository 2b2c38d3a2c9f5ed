"""The proxy as a process: opens its mode, runs the agent and what belongs to it, serves its pages, ends at SIGTERM.

`cli/proxy.py` calls this. The kernel keeps the rules after the proxy has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bridgehead.client import ApiClient, ClientConfig
from bridgehead.heap import trim_heap
from bridgehead.network.own_addresses import is_local
from bridgehead.objects.addresses import join_host_port
from bridgehead.objects.progress import ModeInUse
from bridgehead.pages import Routes, serve

from .address_texts import canonical_address
from .agent import ProxyAgent
from .config import ProxyConfig, in_use
from .conntrack.reconciler import ConntrackReconciler
from .conntrack.scan import NodeAddresses
from .errors import CannotServe, ConfigInvalid
from .mode import Listening, Mode
from .mode_choice import (
    OpenedMode,
    describe_missing_families,
    let_through,
    open_mode,
    open_working_mode,
    remove_leftovers,
    remove_modes,
    remove_others,
)
from .operating.progress import ProgressPublisher
from .operating.serving import health_routes, metrics_routes
from .successor import await_successor
from .sysctls import apply_sysctls, kernel_families, plan_sysctls

log = logging.getLogger("bridgehead.proxy")

BIND_RETRY_SECONDS = 5.0  # kube-proxy's
UNREACHABLE_SECONDS = 5.0  # without the API server; then rules of this proxy may be in the way
RESOLVE_SECONDS = 2.0
_CLEANUP_SECONDS, _CLEANUP_RETRY_SECONDS = 60.0, 1.0  # of removals beside kube-proxy


async def run(
    config: ProxyConfig,
    document: Mapping[str, Any],
    server: ClientConfig,
    service_cidrs: tuple[str, ...],
    dry_run: bool,
    flags: Mapping[str, str],
) -> None:
    """Run the proxy until SIGTERM or SIGINT. The rules stay: connections must survive a restart of the proxy.

    `document` is what `config` was parsed from. `service_cidrs`: () for those of the cluster. With `dry_run`, print
    the rules instead of applying them. `flags`: the options of the command, to be shown. Raises ProxyError.
    """
    async with (
        _open_mode(config, dry_run) as opened,
        ApiClient(server, user_agent="kube-proxy/bridgehead") as client,
    ):
        mode, kernel = opened.mode, kernel_families()
        # Routing to 127.0.0.1 needs a rule that keeps others out, which only this mode has (CVE-2020-8558).
        localhost = config.localhost_node_ports and mode.name == "iptables"
        config = dataclasses.replace(config, localhost_node_ports=localhost)
        problem = opened.problem or describe_missing_families(mode.name, mode.families, kernel)
        if problem:
            problem = f"{problem}; services are served in mode {mode.name}"
            log.warning("%s", problem)
        # Flows to the proxy's own sockets are correct in userspace mode.
        listeners = mode.listening if isinstance(mode, Listening) else tuple
        flows = ConntrackReconciler(node=NodeAddresses(is_local, listeners))
        progress = ProgressPublisher(client, config.hostname_override, ModeInUse(mode.name, config.mode, problem))
        api_server = [address for url in server.servers for address in await _resolve(url)]
        agent = ProxyAgent(
            client,
            mode,
            config,
            config.hostname_override,
            service_cidrs=service_cidrs or None,
            api_addresses=tuple(address for address, _ in api_server),
            flows=flows,
            progress=progress,
            kernel_families=tuple(family for family in kernel if family in mode.families),
            mode_problem=problem,
        )
        work = _print_rules(agent, mode) if dry_run else _work(agent, config, document, progress, api_server, flags)
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        with contextlib.closing(flows), contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def _open_mode(config: ProxyConfig, dry_run: bool) -> AsyncIterator[OpenedMode]:
    if dry_run:
        async with open_mode(config.mode, probe=False, ipvs_options=config.ipvs) as mode:
            yield OpenedMode(mode, config.mode)
        return
    working = open_working_mode(config.mode, ipvs_options=config.ipvs, udp_idle_seconds=config.udp_idle_seconds)
    async with working as opened:
        yield opened


async def _work(
    agent: ProxyAgent,
    config: ProxyConfig,
    document: Mapping[str, Any],
    progress: ProgressPublisher,
    api_server: list[tuple[str, int]],
    flags: Mapping[str, str],
) -> None:
    log.info("proxy of node %s, mode %s", config.hostname_override, agent.mode.name)
    _set_oom_score(config.oom_score_adj)
    apply_sysctls(plan_sysctls(config, os.cpu_count() or 1))
    is_fatal = config.is_bind_failure_fatal
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(agent.run())
        tasks.create_task(_reach_api_server(agent, api_server))
        tasks.create_task(_take_over(agent))
        tasks.create_task(progress.run())
        if config.healthz is not None:
            routes = health_routes(agent.health, agent.metrics)
            tasks.create_task(_serve("healthz", config.healthz, routes, is_fatal=is_fatal))
        if config.metrics is not None:
            mode = agent.mode.name
            routes = metrics_routes(agent.metrics, mode, in_use(document, mode, config.hostname_override), flags)
            tasks.create_task(_serve("metrics", config.metrics, routes, is_fatal=is_fatal))


def _set_oom_score(score: int) -> None:
    """Set oom_score_adj of this process.

    Lower values need CAP_SYS_RESOURCE, so a failure to set the default is no warning: the user did not ask for it.
    """
    try:
        Path("/proc/self/oom_score_adj").write_text(str(score))
    except OSError as error:
        level = logging.DEBUG if score == ProxyConfig().oom_score_adj else logging.WARNING
        log.log(level, "oomScoreAdj: %d cannot be set by this process: %s", score, error.strerror)


async def _reach_api_server(agent: ProxyAgent, addresses: list[tuple[str, int]]) -> None:
    """Exempt the API server's addresses from rules of an earlier proxy that redirect or drop its connections.

    A proxy that cannot reach the API server receives no Services, so it would never replace such rules.
    """
    try:
        async with asyncio.timeout(UNREACHABLE_SECONDS):
            await agent.wait_synced()
    except TimeoutError:
        for address, port in addresses:
            for mode in await let_through(address, port):
                log.warning(
                    "the API server at %s was unreachable for %g s; connections to it now bypass the rules of mode %s, "
                    "which an earlier proxy left",
                    *(join_host_port(address, port), UNREACHABLE_SECONDS, mode),
                )


async def _resolve(server: str) -> list[tuple[str, int]]:
    """Return the addresses and ports of a URL's server; [] if its name cannot be resolved."""
    parts = urlsplit(server)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = parts.hostname or ""
    address = canonical_address(host)
    if address is not None:
        return [(address, port)]
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            answers = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError):
        return []
    addresses = {canonical_address(str(sockaddr[0])) for *_, sockaddr in answers}
    return sorted((address, port) for address in addresses if address is not None)


async def _take_over(agent: ProxyAgent) -> None:
    """Remove the rules of other modes, once this mode is programmed, so that no connection fails in between.

    Also return the memory that only the start needed to the system.
    """
    await agent.wait_programmed()
    for name in await remove_others(agent.mode.name):
        log.info("removed the rules of mode %s, which was in use before", name)
    trim_heap()


async def _serve(what: str, address: tuple[str, int], routes: Routes, *, is_fatal: bool) -> None:
    """Serve these routes. A port in use is fatal only with --bind-address-hard-fail, as in kube-proxy."""
    is_logged = False
    while True:
        try:
            await serve(address, routes)
        except OSError as error:
            text = f"cannot serve {what} on {join_host_port(*address)}: {error.strerror}"
            if is_fatal:
                raise CannotServe(text) from error
            log.log(logging.DEBUG if is_logged else logging.ERROR, "%s; trying again", text)
            is_logged = True
        await asyncio.sleep(BIND_RETRY_SECONDS)


async def _print_rules(agent: ProxyAgent, mode: Mode) -> None:
    sys.stdout.write(await agent.dry_run(mode.render))


async def clean_up() -> None:
    """Remove the rules of all modes from the kernel. Raises ProxyError."""
    removed, failed = await remove_modes()
    if removed:
        log.info("removed the rules of %s", " and ".join(removed))
    for mode, error in failed.items():
        raise type(error)(f"the rules of mode {mode} could not be removed: {error}") from error
    if not removed:
        log.info("there were no rules of this proxy")


async def clean_up_leftovers(config: ProxyConfig) -> None:
    """Wait until kube-proxy serves this node, and remove the rules that it does not use.

    kube-proxy is asked at the configuration's address for metrics. Raises ProxyError.
    """
    if config.metrics is None:
        raise ConfigInvalid("--cleanup-leftovers asks kube-proxy at --metrics-bind-address, which is disabled")
    successor = await await_successor(*config.metrics)
    if successor.is_bridgehead:
        log.info("nothing is removed: this proxy's rules are in use")
        return
    last: dict[str, str] = {}
    end = asyncio.get_running_loop().time() + _CLEANUP_SECONDS
    is_last = False
    while not is_last:
        is_last = asyncio.get_running_loop().time() >= end
        removed, failed = await remove_leftovers(successor.mode, is_last=is_last)
        if removed:
            log.info("removed rules of %s that kube-proxy does not use", " and ".join(removed))
        if not failed:
            return
        problems = {name: str(error) for name, error in failed.items()}
        if problems != last and not is_last:
            log.info("waiting: %s", "; ".join(f"mode {name}: {problem}" for name, problem in problems.items()))
            last = problems
        await asyncio.sleep(_CLEANUP_RETRY_SECONDS)  # kube-proxy may have changed the same chains
    name, error = next(iter(failed.items()))
    raise type(error)(f"the rules of mode {name} could not be removed: {error}") from error

"""Program this node's kernel with the Services of a cluster, in the place of kube-proxy.

Runs on a node of any cluster, in its network namespace, with CAP_NET_ADMIN. Reads a KubeProxyConfiguration; the options
here go before it. Without --kubeconfig it uses the configuration of the pod it is in.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from bridgehead.cli import logs_setup
from bridgehead.client import ApiClient, load_config
from bridgehead.client.errors import ConfigError
from bridgehead.proxy.agent import ProxyAgent
from bridgehead.proxy.config import ProxyConfig, parse_cidrs, parse_config, parse_mode
from bridgehead.proxy.errors import ConfigInvalid, ProxyError
from bridgehead.proxy.flows import FlowKeeper
from bridgehead.proxy.mode import Mode
from bridgehead.proxy.modes import open_mode, remove_others
from bridgehead.proxy.serving import health_routes, metrics_routes, serve

log = logging.getLogger("bridgehead.proxy")


def command(
    config: Annotated[Path | None, typer.Option(help="KubeProxyConfiguration file.")] = None,
    kubeconfig: Annotated[str, typer.Option(help="How to reach the API server.")] = "",
    node_name: Annotated[
        str, typer.Option("--node-name", "--hostname-override", help="This node; default: the host name.")
    ] = "",
    proxy_mode: Annotated[str, typer.Option(help="nftables (the default) or iptables.")] = "",
    cluster_cidr: Annotated[str, typer.Option(help="Where pods live: 10.244.0.0/16[,fd00::/48].")] = "",
    service_cidr: Annotated[
        str, typer.Option(help="Where cluster IPs are given out; those not in use are then dropped.")
    ] = "",
    cleanup: Annotated[bool, typer.Option("--cleanup", help="Take our rules out of the kernel and end.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the ruleset instead of applying it.")] = False,
    verbosity: Annotated[int, typer.Option("-v", "--v", help="1 tells every sync.")] = 0,
) -> None:
    logs_setup.configure(verbosity)
    failure: BaseException | None = None
    try:
        settings = _read_config(config, proxy_mode)
        settings = replace(
            settings,
            kubeconfig=kubeconfig or settings.kubeconfig,
            hostname_override=(node_name or settings.hostname_override or socket.gethostname()).strip().lower(),
            cluster_cidrs=parse_cidrs("--cluster-cidr", cluster_cidr) or settings.cluster_cidrs,
        )
        service_cidrs = parse_cidrs("--service-cidr", service_cidr)
        for warning in settings.warnings:
            log.warning("%s: %s", config, warning)
        if cleanup:
            asyncio.run(_clean_up())
        else:
            asyncio.run(_run(settings, service_cidrs, dry_run))
    except* (ProxyError, ConfigError, _CannotServe) as group:
        failure = group
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    if failure is not None:
        sys.stderr.write(f"bridgehead proxy: {failure}\n")
        raise SystemExit(1)


class _CannotServe(Exception):
    """A port that somebody else has."""


async def _run(config: ProxyConfig, service_cidrs: tuple[str, ...], dry_run: bool) -> None:
    """Work until SIGTERM or SIGINT. The rules stay: connections must survive a restart of the proxy."""
    client_config = load_config(config.kubeconfig or None)
    async with (
        open_mode(config.mode, probe=not dry_run) as mode,
        ApiClient(client_config, user_agent="kube-proxy/bridgehead") as client,
    ):
        flows = FlowKeeper()
        agent = ProxyAgent(client, mode, config, config.hostname_override, service_cidrs=service_cidrs, flows=flows)
        work = _print_rules(agent, mode) if dry_run else _work(agent, config)
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        with contextlib.closing(flows), contextlib.suppress(asyncio.CancelledError):
            await task


async def _work(agent: ProxyAgent, config: ProxyConfig) -> None:
    log.info("proxy of node %s, mode %s", config.hostname_override, agent.mode.name)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(agent.run())
        tasks.create_task(_take_over(agent))
        if config.healthz is not None:
            tasks.create_task(_serve("healthz", config.healthz, health_routes(agent.health)))
        if config.metrics is not None:
            tasks.create_task(_serve("metrics", config.metrics, metrics_routes(agent.metrics, agent.mode.name)))


async def _take_over(agent: ProxyAgent) -> None:
    """What another mode did before goes only now that this one does it, so that no connection falls in between."""
    await agent.wait_programmed()
    for name in await remove_others(agent.mode.name):
        log.info("the rules of mode %s, in use here before, are removed", name)


async def _serve(what: str, address: tuple[str, int], routes: Any) -> None:
    try:
        await serve(address, routes)
    except OSError as error:
        raise _CannotServe(f"cannot serve {what} on {address[0]}:{address[1]}: {error.strerror}") from error


async def _print_rules(agent: ProxyAgent, mode: Mode) -> None:
    sys.stdout.write(await agent.dry_run(mode.render))


async def _clean_up() -> None:
    removed = await remove_others("")
    if removed:
        log.info("the rules of %s are removed", " and ".join(removed))
    else:
        log.info("there were no rules of ours")


def _read_config(path: Path | None, mode: str) -> ProxyConfig:
    if path is None:
        return ProxyConfig(mode=parse_mode(mode))
    import yaml

    try:
        return parse_config(yaml.safe_load(path.read_bytes()), mode)
    except OSError as error:
        raise ConfigInvalid(f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise ConfigInvalid(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    except ConfigInvalid as error:
        raise ConfigInvalid(f"{path}: {error}") from error

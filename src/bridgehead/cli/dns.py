"""Answer the names of a cluster's Services and pods, in the place of CoreDNS.

Runs in any cluster, as a pod or beside it. Outside names go to the upstreams. Without --kubeconfig it uses the
configuration of the pod it is in.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from bridgehead.cli import logs_setup
from bridgehead.cli.failures import reporting_failures
from bridgehead.cli.parsing import path
from bridgehead.client import ApiClient, ClientConfig, load_config
from bridgehead.client.errors import ConfigError
from bridgehead.dns.config import DnsConfig, check, parse_address, parse_node_local
from bridgehead.dns.connections import Server
from bridgehead.dns.corefile import read_corefile
from bridgehead.dns.corefile_text import Surroundings
from bridgehead.dns.errors import ConfigInvalid, DnsError
from bridgehead.dns.node_local import Hold, HoldElsewhere, hold_for_others
from bridgehead.dns.process import dump, follow_file, run, try_addresses
from bridgehead.dns.records import as_domain
from bridgehead.dns.supervisor import supervise
from bridgehead.dns.upstream import parse_server

log = logging.getLogger("bridgehead.dns")


def command(
    config: Annotated[Path | None, typer.Option(parser=path, help="A Corefile; the options here go before it.")] = None,
    kubeconfig: Annotated[str, typer.Option(help="How to reach the API server.")] = "",
    listen: Annotated[
        list[str] | None,
        typer.Option(help="Where to answer, UDP and TCP; may be repeated. [default: port 53 of every address]"),
    ] = None,
    node_local: Annotated[
        list[str] | None,
        typer.Option(
            help="The cluster DNS's address: answer there, port 53, for this node and its pods, in the place of the"
            " service proxy's way to it; may be repeated. Needs CAP_NET_ADMIN in the node's network."
        ),
    ] = None,
    cluster_domain: Annotated[
        str | None, typer.Option(help="The zone of the cluster. [default: cluster.local]")
    ] = None,
    pods: Annotated[
        str | None,
        typer.Option(
            help="Names like 10-244-1-2.default.pod.cluster.local: disabled, insecure or verified. [default: insecure]"
        ),
    ] = None,
    ttl: Annotated[
        int | None, typer.Option(help="How long answers about the cluster may be kept, in seconds. [default: 5]")
    ] = None,
    upstream: Annotated[
        list[str] | None,
        typer.Option(
            help="Whom to ask about other names: ADDRESS[:PORT], or tls://ADDRESS[%NAME][:PORT]; may be repeated."
            " Default: those of --resolv-conf."
        ),
    ] = None,
    no_upstream: Annotated[bool, typer.Option("--no-upstream", help="Refuse other names.")] = False,
    resolv_conf: Annotated[
        str | None, typer.Option(help="Where upstreams are named. [default: /etc/resolv.conf]")
    ] = None,
    stub_domain: Annotated[
        list[str] | None,
        typer.Option(help="DOMAIN=ADDRESS[,ADDRESS...]: whom to ask about these names; may be repeated."),
    ] = None,
    autopath: Annotated[
        bool, typer.Option("--autopath", help="Walk a pod's search list for it, in one query. Follows all pods.")
    ] = False,
    cache: Annotated[
        int | None, typer.Option(min=0, help="How many answers of upstreams to keep at most. [default: 10000]")
    ] = None,
    cache_seconds: Annotated[int | None, typer.Option(min=0, help="And how long at most. [default: 3600]")] = None,
    serve_stale: Annotated[
        int | None, typer.Option(min=0, help="Seconds to use them longer while no upstream answers. [default: 0]")
    ] = None,
    log_queries: Annotated[bool, typer.Option("--log-queries", help="Log a line for each query.")] = False,
    lameduck: Annotated[
        float | None,
        typer.Option(help="Seconds to go on answering, not ready any more, when told to end by SIGTERM. [default: 0]"),
    ] = None,
    processes: Annotated[int, typer.Option(help="How many answer on the same ports.")] = 1,
    health: Annotated[str | None, typer.Option(help="Where /health is; empty: nowhere. [default: :8080]")] = None,
    ready: Annotated[str | None, typer.Option(help="Where /ready is; empty: nowhere. [default: :8181]")] = None,
    metrics: Annotated[
        str | None,
        typer.Option(help="Where /metrics is; process n adds n to the port; empty: nowhere. [default: :9153]"),
    ] = None,
    print_zone: Annotated[bool, typer.Option("--dump", help="Print the zone as a zone file and end.")] = False,
    verbosity: Annotated[int, typer.Option("-v", "--v", help="1 tells more.")] = 0,
) -> None:
    logs_setup.configure(verbosity)
    with reporting_failures("dns", DnsError, ConfigError):
        zone = {"domain": cluster_domain and as_domain(cluster_domain), "pods": pods, "ttl": ttl}
        pages: dict[str, Any] = {
            name: parse_address(f"--{name}", text, port) if text else None
            for name, text, port in (("health", health, 8080), ("ready", ready, 8181), ("metrics", metrics, 9153))
            if text is not None
        }
        given: dict[str, Any] = {
            "listen": tuple(parse_address("--listen", text, 53) for text in listen or ()) or None,
            "node_local": parse_node_local(node_local or ()) or None,
            "upstreams": () if no_upstream else tuple(parse_server(text) for text in upstream or ()) or None,
            "resolv_conf": resolv_conf,
            "stub_domains": tuple(_stub_domain(text) for text in stub_domain or ()) or None,
            "autopath": autopath or None,
            "cache_entries": cache,
            "cache_seconds": cache_seconds,
            "serve_stale_seconds": serve_stale,
            "log_queries": log_queries or None,
            "lameduck_seconds": lameduck,
            "processes": processes,
        }

        def read() -> DnsConfig:
            base = _read_config(config, DnsConfig(node_local=given["node_local"] or ()))
            merged = replace(base, zone=replace(base.zone, **_given(zone)), **_given(given), **pages)
            check(merged)
            return merged

        settings = read()
        client_config = load_config(kubeconfig or None)
        if print_zone:
            asyncio.run(_print_zone(settings, client_config))
            return

        reread = read if config is not None else None
        if processes == 1:
            asyncio.run(_work(client_config, settings, 0, reread))
            return
        try_addresses(settings)
        held = settings.node_local

        def work(number: int, pipe: int) -> None:
            asyncio.run(_work(client_config, settings, number, reread, HoldElsewhere(pipe) if held else None))

        def hold(pipe: int) -> None:
            asyncio.run(_hold(held, pipe))

        raise SystemExit(supervise(processes, work, hold if held else None))


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Those that were given; the others leave the file's word, or the default."""
    return {name: value for name, value in options.items() if value is not None}


def _read_config(path: Path | None, base: DnsConfig) -> DnsConfig:
    if path is None:
        return base
    try:
        reading = read_corefile(path.read_text(), base, Surroundings(directory=str(path.parent)))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"{path}: {error.strerror if isinstance(error, OSError) else 'not text'}") from error
    for remark in reading.remarks:
        log.debug("%s: %s", path, remark)
    return reading.config


def _stub_domain(text: str) -> tuple[str, tuple[Server, ...]]:
    domain, equals, addresses = text.partition("=")
    if not equals or not domain:
        raise ConfigInvalid(f"--stub-domain: {text!r} is not DOMAIN=ADDRESS[,ADDRESS...]")
    return as_domain(domain), tuple(parse_server(address) for address in addresses.split(","))


async def _work(
    client_config: ClientConfig,
    settings: DnsConfig,
    number: int,
    read: Callable[[], DnsConfig] | None,
    hold: Hold | None = None,
) -> None:
    """Answer until SIGTERM and the time after it, or SIGINT."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each open question has a socket of its own
    ending = asyncio.Event()
    await _until_told(_serve(client_config, settings, number, read, ending, hold), ending)


async def _hold(addresses: tuple[str, ...], pipe: int) -> None:
    ending = asyncio.Event()
    await _until_told(hold_for_others(addresses, pipe, ending), ending)


async def _until_told(work: Coroutine[Any, Any, None], ending: asyncio.Event) -> None:
    """SIGTERM sets `ending`; SIGINT cancels the work."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ending.set)
    loop.add_signal_handler(signal.SIGINT, task.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    finally:
        # What comes now would find the loop's pipe for signals closed.
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))


async def _serve(
    client_config: ClientConfig,
    settings: DnsConfig,
    number: int,
    read: Callable[[], DnsConfig] | None,
    ending: asyncio.Event,
    hold: Hold | None,
) -> None:
    changes = follow_file(read, settings) if read is not None else None
    async with ApiClient(client_config, user_agent="bridgehead-dns") as client:
        await run(client, settings, number, changes=changes, ending=ending, hold=hold)


async def _print_zone(config: DnsConfig, client_config: ClientConfig) -> None:
    async with ApiClient(client_config, user_agent="bridgehead-dns") as client:
        sys.stdout.write(await dump(client, config))

"""Answer the names of a cluster's Services and pods, in the place of CoreDNS.

The server runs in any cluster, as a pod or outside it. Queries for external names go to upstream resolvers. Without
--kubeconfig the server uses the service account of its pod.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bridgehead.client import ApiClient, ClientConfig, load_config
from bridgehead.client.errors import ConfigError
from bridgehead.dns.config import CacheSettings, DnsConfig, Server, check, parse_address, parse_node_local
from bridgehead.dns.corefile import Inputs, only_when_changed, read_corefile
from bridgehead.dns.errors import ConfigInvalid, DnsError
from bridgehead.dns.messages.domain_names import as_domain
from bridgehead.dns.process import check_addresses, dump, run, watch_file
from bridgehead.dns.serving import Holder, RemoteHolder, hold_for_workers
from bridgehead.dns.supervisor import supervise
from bridgehead.dns.upstreams import parse_server

from . import logs_setup
from .exit_codes import reporting_failures
from .groups import ACCESS, ADDRESSES, ONCE, TUNING, WHAT
from .options import option, verbosity_row

log = logging.getLogger("bridgehead.dns")


@dataclass(frozen=True, kw_only=True)
class Options:
    config: Path | None = option(None, WHAT, "Corefile; options override its settings.")
    cluster_domain: str | None = option(None, WHAT, "Domain of the cluster.  [default: cluster.local]")
    pods: str | None = option(
        None,
        WHAT,
        "Names like 10-244-1-2.default.pod.cluster.local: disabled, insecure (any address) or verified"
        " (addresses of pods).  [default: insecure]",
    )
    ttl: int | None = option(None, WHAT, "TTL of the cluster's records, in seconds.  [default: 5]")
    autopath: bool = option(False, WHAT, "Resolve the search list of a pod in one query. Watches all pods.")
    upstream: list[str] = option(
        (),
        WHAT,
        "Upstream resolver for external names, ADDRESS[:PORT] or tls://ADDRESS[%NAME][:PORT]; may be repeated."
        " Default: the name servers of --resolv-conf.",
    )
    no_upstream: bool = option(False, WHAT, "Refuse queries for external names.")
    resolv_conf: str | None = option(
        None, WHAT, "File with the default upstream resolvers.  [default: /etc/resolv.conf]"
    )
    stub_domain: list[str] = option(
        (), WHAT, "Domain with upstream resolvers of its own, DOMAIN=ADDRESS[,ADDRESS...]; may be repeated."
    )
    kubeconfig: str = option("", ACCESS, "Kubeconfig file. Default: the pod's service account.")
    listen: list[str] = option(
        (), ADDRESSES, "Address for queries by UDP and TCP; may be repeated.  [default: port 53 of every address]"
    )
    node_local: list[str] = option(
        (),
        ADDRESSES,
        "Address of the cluster DNS to serve on this node, port 53, before the service proxy; may be repeated."
        " Needs CAP_NET_ADMIN in the node's network namespace.",
    )
    health: str | None = option(None, ADDRESSES, "Address of the page /health; empty: none.  [default: :8080]")
    ready: str | None = option(None, ADDRESSES, "Address of the page /ready; empty: none.  [default: :8181]")
    metrics: str | None = option(
        None,
        ADDRESSES,
        "Address of the page /metrics; empty: none. Process n of --processes adds n to the port, from 0."
        "  [default: :9153]",
    )
    processes: int = option(1, TUNING, "Number of processes that answer at the same addresses.")
    cache: int | None = option(None, TUNING, "Number of upstreams' answers to cache.  [default: 10000]", min=0)
    cache_seconds: int | None = option(
        None, TUNING, "Longest time in seconds to cache an answer.  [default: 3600]", min=0
    )
    serve_stale: int | None = option(
        None, TUNING, "Seconds to use expired answers while no upstream replies.  [default: 0]", min=0
    )
    lameduck: float | None = option(
        None, TUNING, "Seconds to answer queries after SIGTERM, while /ready already fails.  [default: 0]"
    )
    log_queries: bool = option(False, TUNING, "Log a line for each query.")
    verbosity: int = verbosity_row("Verbosity: 1 logs details, such as names of `hosts` that are in none of its zones.")
    print_zone: bool = option(False, ONCE, "Print the zone as a zone file and exit.", "--dump")


def command(options: Options) -> None:
    logs_setup.configure(options.verbosity)
    with reporting_failures("dns", DnsError, ConfigError):
        zone = {
            "domain": options.cluster_domain and as_domain(options.cluster_domain),
            "pods": options.pods,
            "ttl": options.ttl,
        }
        pages: dict[str, Any] = {
            name: parse_address(f"--{name}", text, port) if text else None
            for name, text, port in (
                ("health", options.health, 8080),
                ("ready", options.ready, 8181),
                ("metrics", options.metrics, 9153),
            )
            if text is not None
        }
        given: dict[str, Any] = {
            "listen": tuple(parse_address("--listen", text, 53) for text in options.listen) or None,
            "node_local": parse_node_local(options.node_local) or None,
            "upstreams": _upstreams(options),
            "resolv_conf": options.resolv_conf,
            "stub_domains": tuple(_stub_domain(text) for text in options.stub_domain) or None,
            "autopath": options.autopath or None,
            "log_queries": options.log_queries or None,
            "lameduck_seconds": options.lameduck,
            "processes": options.processes,
        }

        @only_when_changed
        def read(inputs: Inputs) -> DnsConfig:
            base = _read_config(options.config, DnsConfig(node_local=given["node_local"] or ()), inputs)
            merged = replace(
                base,
                zone=replace(base.zone, **_given(zone)),
                cache=_cache(base.cache, options.cache, options.cache_seconds, options.serve_stale),
                **_given(given),
                **pages,
            )
            check(merged)
            return merged

        settings = read()
        client_config = load_config(options.kubeconfig or None)
        if options.print_zone:
            asyncio.run(_print_zone(settings, client_config))
            return

        reread = read if options.config is not None else None
        if options.processes == 1:
            asyncio.run(_work(client_config, settings, 0, reread))
            return
        check_addresses(settings)
        held = settings.node_local

        def work(number: int, pipe: int) -> None:
            asyncio.run(_work(client_config, settings, number, reread, RemoteHolder(pipe) if held else None))

        def hold(pipe: int) -> None:
            asyncio.run(_hold(held, pipe))

        raise SystemExit(supervise(options.processes, work, hold if held else None))


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given. The value of another one is the Corefile's, or the default."""
    return {name: value for name, value in options.items() if value is not None}


def _cache(base: CacheSettings, capacity: int | None, longest: int | None, stale: int | None) -> CacheSettings:
    """Return the settings changed by the options that were given."""
    changes = {
        "capacity": capacity,
        "negative_capacity": capacity,
        "ttl": None if longest is None else base.ttl._replace(longest=longest),
        "stale_seconds": stale,
    }
    return replace(base, **_given(changes))


def _read_config(path: Path | None, base: DnsConfig, inputs: Inputs) -> DnsConfig:
    if path is None:
        return base
    sources = inputs.sources(str(path.parent))
    try:
        reading = read_corefile(sources.read(str(path)), base, sources)
    except OSError as error:
        raise ConfigInvalid(f"{path}: {error.strerror}") from error
    for remark in reading.remarks:
        log.debug("%s: %s", path, remark)
    return reading.config


def _upstreams(options: Options) -> tuple[Server, ...] | None:
    """Return the upstream resolvers that were given, () for none at all; None: the Corefile's, or the default ones."""
    if options.no_upstream:
        return ()
    return tuple(parse_server(text) for text in options.upstream) or None


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
    holder: Holder | None = None,
) -> None:
    """Answer until SIGTERM and the lameduck time, or until SIGINT."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each query to an upstream has a socket
    ending = asyncio.Event()
    await _run_until_signal(_serve(client_config, settings, number, read, ending, holder), ending)


async def _hold(addresses: tuple[str, ...], pipe: int) -> None:
    ending = asyncio.Event()
    await _run_until_signal(hold_for_workers(addresses, pipe, ending), ending)


async def _run_until_signal(work: Coroutine[Any, Any, None], ending: asyncio.Event) -> None:
    """SIGTERM sets `ending`; SIGINT cancels the work."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ending.set)
    loop.add_signal_handler(signal.SIGINT, task.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    finally:
        # A later signal would be written to the closed pipe of the loop.
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))


async def _serve(
    client_config: ClientConfig,
    settings: DnsConfig,
    number: int,
    read: Callable[[], DnsConfig] | None,
    ending: asyncio.Event,
    holder: Holder | None,
) -> None:
    changes = watch_file(read, settings) if read is not None else None
    async with ApiClient(client_config, user_agent="bridgehead-dns") as client:
        await run(client, settings, number, changes=changes, ending=ending, holder=holder)


async def _print_zone(config: DnsConfig, client_config: ClientConfig) -> None:
    async with ApiClient(client_config, user_agent="bridgehead-dns") as client:
        sys.stdout.write(await dump(client, config))

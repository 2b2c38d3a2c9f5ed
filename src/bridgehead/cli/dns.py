"""Answer the names of a cluster's Services and pods, in the place of CoreDNS.

Runs in any cluster, as a pod or beside it. Outside names go to the upstreams. Without --kubeconfig it uses the
configuration of the pod it is in.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from bridgehead.cli import logs_setup
from bridgehead.client import ApiClient, ClientConfig, load_config
from bridgehead.client.errors import ConfigError
from bridgehead.dns.config import DnsConfig, check, parse_address
from bridgehead.dns.errors import DnsError
from bridgehead.dns.process import dump, run
from bridgehead.dns.supervisor import supervise
from bridgehead.dns.upstream import Server, parse_server
from bridgehead.dns.zone import ZoneSettings

log = logging.getLogger("bridgehead.dns")


def command(
    kubeconfig: Annotated[str, typer.Option(help="How to reach the API server.")] = "",
    listen: Annotated[list[str], typer.Option(help="Where to answer, UDP and TCP; may be repeated.")] = ["0.0.0.0:53"],  # noqa: B006
    cluster_domain: Annotated[str, typer.Option(help="The zone of the cluster.")] = "cluster.local",
    pods: Annotated[
        str, typer.Option(help="Names like 10-244-1-2.default.pod.cluster.local: disabled, insecure or verified.")
    ] = "insecure",
    ttl: Annotated[int, typer.Option(help="How long answers about the cluster may be kept, in seconds.")] = 5,
    upstream: Annotated[
        list[str], typer.Option(help="Whom to ask about other names; may be repeated. Default: those of --resolv-conf.")
    ] = [],  # noqa: B006
    no_upstream: Annotated[bool, typer.Option("--no-upstream", help="Refuse other names.")] = False,
    resolv_conf: Annotated[Path, typer.Option(help="Where upstreams are named.")] = Path("/etc/resolv.conf"),
    stub_domain: Annotated[
        list[str], typer.Option(help="DOMAIN=ADDRESS[,ADDRESS...]: whom to ask about these names; may be repeated.")
    ] = [],  # noqa: B006
    autopath: Annotated[
        bool, typer.Option("--autopath", help="Walk a pod's search list for it, in one query. Follows all pods.")
    ] = False,
    cache: Annotated[int, typer.Option(help="How many answers of upstreams to keep at most.")] = 10_000,
    cache_seconds: Annotated[int, typer.Option(help="And how long at most.")] = 3600,
    serve_stale: Annotated[int, typer.Option(help="Seconds to use them longer while no upstream answers.")] = 0,
    processes: Annotated[int, typer.Option(help="How many answer on the same ports.")] = 1,
    health: Annotated[str, typer.Option(help="Where /health is; empty: nowhere.")] = ":8080",
    ready: Annotated[str, typer.Option(help="Where /ready is; empty: nowhere.")] = ":8181",
    metrics: Annotated[str, typer.Option(help="Where /metrics is; process n adds n to the port.")] = ":9153",
    print_zone: Annotated[bool, typer.Option("--dump", help="Print the zone as a zone file and end.")] = False,
    verbosity: Annotated[int, typer.Option("-v", "--v", help="1 tells more.")] = 0,
) -> None:
    logs_setup.configure(verbosity)
    failure: BaseException | None = None
    try:
        config = DnsConfig(
            zone=ZoneSettings(cluster_domain.rstrip(".").lower(), pods, ttl),
            listen=tuple(parse_address("--listen", text, 53) for text in listen),
            upstreams=() if no_upstream else tuple(parse_server(text) for text in upstream) or None,
            resolv_conf=str(resolv_conf),
            stub_domains=tuple(_stub_domain(text) for text in stub_domain),
            autopath=autopath,
            cache_entries=cache,
            cache_seconds=cache_seconds,
            serve_stale_seconds=serve_stale,
            processes=processes,
            health=parse_address("--health", health, 8080) if health else None,
            ready=parse_address("--ready", ready, 8181) if ready else None,
            metrics=parse_address("--metrics", metrics, 9153) if metrics else None,
        )
        check(config)
        client_config = load_config(kubeconfig or None)
        if print_zone:
            asyncio.run(_print_zone(config, client_config))
        elif processes > 1:
            raise SystemExit(
                supervise(config.processes, lambda number: asyncio.run(_work(config, client_config, number)))
            )
        else:
            asyncio.run(_work(config, client_config, 0))
    except* (DnsError, ConfigError) as group:
        failure = group
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    if failure is not None:
        sys.stderr.write(f"bridgehead dns: {failure}\n")
        raise SystemExit(1)


def _stub_domain(text: str) -> tuple[str, tuple[Server, ...]]:
    domain, _, addresses = text.partition("=")
    return domain.rstrip(".").lower(), tuple(parse_server(address) for address in addresses.split(","))


async def _work(config: DnsConfig, client_config: ClientConfig, number: int) -> None:
    """Answer until SIGTERM or SIGINT."""
    task = asyncio.ensure_future(_serve(config, client_config, number))
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _serve(config: DnsConfig, client_config: ClientConfig, number: int) -> None:
    async with ApiClient(client_config, user_agent="bridgehead-dns") as client:
        await run(client, config, number)


async def _print_zone(config: DnsConfig, client_config: ClientConfig) -> None:
    async with ApiClient(client_config, user_agent="bridgehead-dns") as client:
        sys.stdout.write(await dump(client, config))

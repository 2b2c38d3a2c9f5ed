"""Program this node's kernel with the Services of a cluster, in the place of kube-proxy.

Runs on a node of any cluster, in its network namespace, with CAP_NET_ADMIN. Reads a KubeProxyConfiguration; the options
here, which are named like kube-proxy's, go before it. Without --kubeconfig it uses the configuration of the pod it is
in.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from bridgehead.cli import logs_setup
from bridgehead.cli.failures import reporting_failures
from bridgehead.cli.parsing import level, path
from bridgehead.cli.proxy_options import refuse, unused, with_options
from bridgehead.client import ApiClient, ClientConfig, load_config, load_kubeconfig
from bridgehead.client.errors import ConfigError
from bridgehead.memory import give_back
from bridgehead.network.own_addresses import is_local
from bridgehead.objects.addresses import join_host_port
from bridgehead.pages import Routes, serve
from bridgehead.proxy.addresses import canonical_address
from bridgehead.proxy.agent import ProxyAgent
from bridgehead.proxy.config import DEFAULTS, ProxyConfig, in_use, parse_config
from bridgehead.proxy.config_reader import parse_cidrs
from bridgehead.proxy.conntrack.keeper import FlowKeeper
from bridgehead.proxy.conntrack.stale import NodeAddresses
from bridgehead.proxy.errors import ConfigInvalid, ProxyError
from bridgehead.proxy.mode import Listening, Mode
from bridgehead.proxy.modes import let_through, open_mode, open_working_mode, remove_modes, remove_others
from bridgehead.proxy.operating.progress import ProgressPublisher
from bridgehead.proxy.operating.serving import health_routes, metrics_routes
from bridgehead.proxy.sysctls import apply_sysctls, kernel_families, plan_sysctls

log = logging.getLogger("bridgehead.proxy")

BIND_RETRY_SECONDS = 5.0  # kube-proxy's
UNREACHABLE_SECONDS = 5.0  # after so long without the API server, it may be that our own rules are in the way
RESOLVE_SECONDS = 2.0

# As with Kubernetes' own programs, `--proxy_mode` is `--proxy-mode`.
CONTEXT = {"token_normalize_func": lambda token: token.replace("_", "-")}


def command(
    config: Annotated[Path | None, typer.Option(parser=path, help="KubeProxyConfiguration file.")] = None,
    kubeconfig: Annotated[str, typer.Option(help="How to reach the API server.")] = "",
    master: Annotated[str, typer.Option(help="The API server's address, in the place of the kubeconfig's.")] = "",
    kube_api_qps: Annotated[float | None, typer.Option(hidden=True)] = None,
    kube_api_burst: Annotated[int | None, typer.Option(hidden=True)] = None,
    node_name: Annotated[
        str, typer.Option("--node-name", "--hostname-override", help="This node; default: the host name.")
    ] = "",
    proxy_mode: Annotated[str, typer.Option(help="nftables (the default), iptables, ipvs or userspace.")] = "",
    bind_address: Annotated[str, typer.Option(help="This node's primary address, if not what its Node says.")] = "",
    bind_address_hard_fail: Annotated[
        bool | None, typer.Option("--bind-address-hard-fail", help="End when a port of ours can't be had.")
    ] = None,
    healthz_bind_address: Annotated[
        str, typer.Option(help="Where /healthz is; port 0: nowhere.  [0.0.0.0:10256]")
    ] = "",
    metrics_bind_address: Annotated[
        str, typer.Option(help="Where /metrics is; port 0: nowhere.  [127.0.0.1:10249]")
    ] = "",
    healthz_port: Annotated[int | None, typer.Option(hidden=True, min=0, max=65535)] = None,
    metrics_port: Annotated[int | None, typer.Option(hidden=True, min=0, max=65535)] = None,
    cluster_cidr: Annotated[str, typer.Option(help="Where pods live: 10.244.0.0/16[,fd00::/48].")] = "",
    service_cidr: Annotated[
        str, typer.Option(help="Where cluster IPs are given out, if not where ServiceCIDRs say.")
    ] = "",
    detect_local_mode: Annotated[
        str, typer.Option(help="How pods are told: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix.")
    ] = "",
    pod_bridge_interface: Annotated[str, typer.Option(help="The bridge, for BridgeInterface.")] = "",
    pod_interface_name_prefix: Annotated[str, typer.Option(help="The prefix, for InterfaceNamePrefix.")] = "",
    nodeport_addresses: Annotated[
        str, typer.Option(help="Which of this node's addresses have node ports: ranges, or the word primary.")
    ] = "",
    masquerade_all: Annotated[
        bool | None, typer.Option("--masquerade-all", help="Every connection to a cluster IP gets this node's address.")
    ] = None,
    iptables_masquerade_bit: Annotated[
        int | None,
        typer.Option(
            "--iptables-masquerade-bit", "--masquerade-bit", help="The bit of packets' marks for masquerading.  [14]"
        ),
    ] = None,
    iptables_localhost_nodeports: Annotated[
        bool | None, typer.Option(help="Node ports answer on 127.0.0.1, too, in iptables mode.")
    ] = None,
    iptables_sync_period: Annotated[
        str, typer.Option("--iptables-sync-period", "--sync-period", help="How often all rules are compared.  [30s]")
    ] = "",
    iptables_min_sync_period: Annotated[
        str, typer.Option("--iptables-min-sync-period", "--min-sync-period", help="The least time between changes.")
    ] = "",
    ipvs_sync_period: Annotated[str, typer.Option(hidden=True)] = "",
    ipvs_min_sync_period: Annotated[str, typer.Option(hidden=True)] = "",
    ipvs_scheduler: Annotated[
        str, typer.Option(help="rr, wrr, lc, wlc, dh, sh, sed, nq, mh, lblc or lblcr.  [rr]")
    ] = "",
    ipvs_exclude_cidrs: Annotated[str, typer.Option(help="Ranges whose virtual servers are somebody else's.")] = "",
    ipvs_strict_arp: Annotated[
        bool | None, typer.Option("--ipvs-strict-arp", help="Sets arp_ignore and arp_announce.")
    ] = None,
    ipvs_tcp_timeout: Annotated[str, typer.Option(help="How long IPVS keeps an idle connection: 15m.")] = "",
    ipvs_tcpfin_timeout: Annotated[str, typer.Option(help="And one after a FIN.")] = "",
    ipvs_udp_timeout: Annotated[str, typer.Option(help="And a UDP flow.")] = "",
    conntrack_max_per_core: Annotated[
        int | None, typer.Option(help="Tracked connections for each processor; 0 leaves it.")
    ] = None,
    conntrack_min: Annotated[int | None, typer.Option(help="But at least so many in all.")] = None,
    conntrack_tcp_timeout_established: Annotated[
        str, typer.Option(help="How long they are tracked while idle; 0 leaves it.  [24h]")
    ] = "",
    conntrack_tcp_timeout_close_wait: Annotated[str, typer.Option(help="And half-closed; 0 leaves it.  [1h]")] = "",
    conntrack_tcp_be_liberal: Annotated[
        bool | None, typer.Option("--conntrack-tcp-be-liberal", help="Sets nf_conntrack_tcp_be_liberal.")
    ] = None,
    conntrack_udp_timeout: Annotated[str, typer.Option(help="And UDP without an answer; 0 leaves it.")] = "",
    conntrack_udp_timeout_stream: Annotated[str, typer.Option(help="And with answers; 0 leaves it.")] = "",
    oom_score_adj: Annotated[int | None, typer.Option(help="Of this process, from -1000 to 1000.  [-999]")] = None,
    # Manifests have these of kube-proxy, too; README.md of the proxy says of each what it means here.
    config_sync_period: Annotated[str, typer.Option(hidden=True)] = "",
    feature_gates: Annotated[str, typer.Option(hidden=True)] = "",
    kube_api_content_type: Annotated[str, typer.Option(hidden=True)] = "",
    profiling: Annotated[bool | None, typer.Option("--profiling", hidden=True)] = None,
    show_hidden_metrics_for_version: Annotated[str, typer.Option(hidden=True)] = "",
    logging_format: Annotated[str, typer.Option(hidden=True)] = "",
    log_flush_frequency: Annotated[str, typer.Option(hidden=True)] = "",
    log_text_split_stream: Annotated[bool | None, typer.Option("--log-text-split-stream", hidden=True)] = None,
    log_text_info_buffer_size: Annotated[str, typer.Option(hidden=True)] = "",
    log_json_split_stream: Annotated[bool | None, typer.Option("--log-json-split-stream", hidden=True)] = None,
    log_json_info_buffer_size: Annotated[str, typer.Option(hidden=True)] = "",
    logtostderr: Annotated[bool | None, typer.Option("--logtostderr", hidden=True)] = None,
    alsologtostderr: Annotated[bool | None, typer.Option("--alsologtostderr", hidden=True)] = None,
    log_dir: Annotated[str, typer.Option(hidden=True)] = "",
    log_file: Annotated[str, typer.Option(hidden=True)] = "",
    log_file_max_size: Annotated[str, typer.Option(hidden=True)] = "",
    one_output: Annotated[bool | None, typer.Option("--one-output", hidden=True)] = None,
    skip_headers: Annotated[bool | None, typer.Option("--skip-headers", hidden=True)] = None,
    skip_log_headers: Annotated[bool | None, typer.Option("--skip-log-headers", hidden=True)] = None,
    add_dir_header: Annotated[bool | None, typer.Option("--add-dir-header", hidden=True)] = None,
    log_backtrace_at: Annotated[str, typer.Option(hidden=True)] = "",
    stderrthreshold: Annotated[str, typer.Option(hidden=True)] = "",
    vmodule: Annotated[str, typer.Option(hidden=True)] = "",
    write_config_to: Annotated[
        Path | None, typer.Option(parser=path, help="Write the configuration there and end.")
    ] = None,
    init_only: Annotated[
        bool, typer.Option("--init-only", help="Make the settings of the kernel, for which root is needed, and end.")
    ] = False,
    cleanup: Annotated[bool, typer.Option("--cleanup", help="Take our rules out of the kernel and end.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the ruleset instead of applying it.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
    verbosity: Annotated[int, typer.Option("-v", "--v", parser=level, help="1 tells every sync.")] = 0,
) -> None:
    given = dict(locals())
    if version:
        from bridgehead import __version__

        sys.stdout.write(f"bridgehead {__version__}\n")
        return
    logs_setup.configure(verbosity)
    with reporting_failures("proxy", ProxyError, ConfigError, _CannotServe):
        refuse(given)
        document = with_options(_read_document(config, proxy_mode), given)
        settings = parse_config(document)
        logs_setup.configure(max(verbosity, settings.verbosity))
        name = (settings.hostname_override or socket.gethostname()).strip().lower()
        settings = replace(settings, hostname_override=name)
        service_cidrs = parse_cidrs("--service-cidr", service_cidr)
        for warning in settings.warnings:
            log.warning("%s: %s", config, warning)
        for warning in unused(given):
            log.warning("%s", warning)
        if write_config_to is not None:
            _write_document(document, write_config_to)
        elif cleanup:
            asyncio.run(_clean_up())
        elif init_only:
            apply_sysctls(plan_sysctls(settings, os.cpu_count() or 1), refused=logging.WARNING)
        else:
            asyncio.run(_run(settings, document, client_config(settings.kubeconfig, master), service_cidrs, dry_run))


class _CannotServe(Exception):
    """A port that somebody else has."""


def client_config(kubeconfig: str, master: str) -> ClientConfig:
    """How to reach the API server; `master` goes before the address in the kubeconfig. Raises ConfigError."""
    if not master:
        return load_config(kubeconfig or None)
    config = load_kubeconfig(kubeconfig) if kubeconfig else ClientConfig("")
    if "://" not in master:
        has_tls = config.insecure or config.ca is not None or config.client_certificate is not None
        master = f"{'https' if has_tls else 'http'}://{master}"
    return replace(config, server=master.rstrip("/"))


async def _run(
    config: ProxyConfig,
    document: Mapping[str, Any],
    server: ClientConfig,
    service_cidrs: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Work until SIGTERM or SIGINT. The rules stay: connections must survive a restart of the proxy."""
    async with (
        _open_mode(config, dry_run) as mode,
        ApiClient(server, user_agent="kube-proxy/bridgehead") as client,
    ):
        # In some modes flows lead to the proxy itself, which is right.
        listeners = mode.listening if isinstance(mode, Listening) else tuple
        flows = FlowKeeper(node=NodeAddresses(is_local, listeners))
        progress = ProgressPublisher(client, config.hostname_override)
        api_server = await _resolve(server.server)
        agent = ProxyAgent(
            client,
            mode,
            config,
            config.hostname_override,
            service_cidrs=service_cidrs or None,
            api_addresses=tuple(address for address, _ in api_server),
            flows=flows,
            progress=progress,
            kernel_families=kernel_families(),
        )
        work = _print_rules(agent, mode) if dry_run else _work(agent, config, document, progress, api_server)
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        with contextlib.closing(flows), contextlib.suppress(asyncio.CancelledError):
            await task


def _open_mode(config: ProxyConfig, dry_run: bool) -> AbstractAsyncContextManager[Mode]:
    if dry_run:
        return open_mode(config.mode, probe=False, ipvs_options=config.ipvs)
    return open_working_mode(config.mode, ipvs_options=config.ipvs, udp_idle_seconds=config.udp_idle_seconds)


async def _work(
    agent: ProxyAgent,
    config: ProxyConfig,
    document: Mapping[str, Any],
    progress: ProgressPublisher,
    api_server: list[tuple[str, int]],
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
            routes = metrics_routes(agent.metrics, mode, in_use(document, mode, config.hostname_override))
            tasks.create_task(_serve("metrics", config.metrics, routes, is_fatal=is_fatal))


def _set_oom_score(score: int) -> None:
    """How readily the kernel ends this process when it is short of memory.

    Less readily is not for everybody to ask, and whoever says nothing has not asked.
    """
    try:
        Path("/proc/self/oom_score_adj").write_text(str(score))
    except OSError as error:
        level = logging.DEBUG if score == ProxyConfig().oom_score_adj else logging.WARNING
        log.log(level, "oomScoreAdj: %d is not for this process to set: %s", score, error.strerror)


async def _reach_api_server(agent: ProxyAgent, places: list[tuple[str, int]]) -> None:
    """Get past rules of an earlier proxy that lead the API server's address elsewhere, or drop what is sent there.

    A proxy that cannot reach it learns of nothing, so such rules would stay for ever.
    """
    try:
        async with asyncio.timeout(UNREACHABLE_SECONDS):
            await agent.wait_synced()
    except TimeoutError:
        for address, port in places:
            for mode in await let_through(address, port):
                place = join_host_port(address, port)
                log.warning(
                    "the API server at %s was not reached in %g s; the rules of mode %s, which an earlier proxy left, "
                    "let connections to it pass now",
                    *(place, UNREACHABLE_SECONDS, mode),
                )


async def _resolve(server: str) -> list[tuple[str, int]]:
    """The addresses and ports of a URL's server; [] if nobody knows."""
    parts = urlsplit(server)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = parts.hostname or ""
    address = canonical_address(host)
    if address is not None:
        return [(address, port)]
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError):
        return []
    addresses = {canonical_address(str(place[0])) for *_, place in found}
    return sorted((address, port) for address in addresses if address is not None)


async def _take_over(agent: ProxyAgent) -> None:
    """What another mode did before goes only now that this one does it, so that no connection falls in between.

    With it goes the memory that only the start needed.
    """
    await agent.wait_programmed()
    for name in await remove_others(agent.mode.name):
        log.info("the rules of mode %s, in use here before, are removed", name)
    give_back()


async def _serve(what: str, address: tuple[str, int], routes: Routes, *, is_fatal: bool) -> None:
    """As in kube-proxy, a port that is taken stops nothing unless asked for."""
    is_told = False
    while True:
        try:
            await serve(address, routes)
        except OSError as error:
            text = f"cannot serve {what} on {join_host_port(*address)}: {error.strerror}"
            if is_fatal:
                raise _CannotServe(text) from error
            log.log(logging.DEBUG if is_told else logging.ERROR, "%s; trying again", text)
            is_told = True
        await asyncio.sleep(BIND_RETRY_SECONDS)


async def _print_rules(agent: ProxyAgent, mode: Mode) -> None:
    sys.stdout.write(await agent.dry_run(mode.render))


async def _clean_up() -> None:
    removed, failed = await remove_modes()
    if removed:
        log.info("the rules of %s are removed", " and ".join(removed))
    for mode, error in failed.items():
        raise type(error)(f"the rules of mode {mode} could not be removed: {error}") from error
    if not removed:
        log.info("there were no rules of ours")


def _read_document(path: Path | None, mode: str) -> Mapping[str, Any]:
    if path is None:
        return DEFAULTS
    import yaml

    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same by libyaml, faster and lighter
        document = yaml.load(path.read_bytes(), Loader=loader)
        parse_config(document, mode)  # so that what is wrong with the file is said of the file
    except OSError as error:
        raise ConfigInvalid(f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise ConfigInvalid(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    except ConfigInvalid as error:
        raise ConfigInvalid(f"{path}: {error}") from error
    found: Mapping[str, Any] = document
    return found


def _write_document(document: Mapping[str, Any], path: Path) -> None:
    import yaml

    try:
        path.write_text(yaml.safe_dump(dict(document)))
    except OSError as error:
        raise ConfigInvalid(f"{path}: {error.strerror}") from error
    log.info("wrote the configuration to %s", path)

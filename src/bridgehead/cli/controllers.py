"""Run the controllers of a cluster: workloads, endpoints, scheduler, nodes, namespaces, garbage collection.

The controllers work with any Kubernetes API server, given by a kubeconfig or, in a pod, by its service account. Several
instances may run for one cluster; they elect a leader, with one Lease for all controllers and the scheduler.

Bridgehead's API server and kubelets do themselves what other controllers do beside kube-apiserver: aggregation of
ClusterRoles, ServiceCIDR's status, counts of ResourceQuotas, checks of admission policies, and the ranges of a node's
pods. For these, run kube-controller-manager beside with clusterrole-aggregation-controller, service-cidr-controller,
resourcequota-controller, validatingadmissionpolicy-status-controller and node-ipam-controller. Attaching and resizing
volumes, and claims of devices, have no controller here.
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bridgehead import heartbeat
from bridgehead.client import ApiClient, ClientConfig, LeaderElector, load_config
from bridgehead.client.errors import ConfigError
from bridgehead.client.metrics import CLIENT_METRICS
from bridgehead.controllers.manager import Manager, Settings, select_controllers
from bridgehead.exposition.common_metrics import new_registry
from bridgehead.objects.endpoint_slices import DEFAULT_MAX_ENDPOINTS
from bridgehead.objects.times import parse_duration
from bridgehead.pages import Page, Routes, metrics_page, serve

from .exit_codes import fail, reporting_failures
from .groups import OPTIONS
from .leader_election import Election, LeaderElectionOptions, parse_election
from .leader_guardian import start_guardian
from .logs_setup import configure
from .options import option, verbosity_row
from .parsing import host_port

METRICS_PORT = 10257  # kube-controller-manager's
USER_AGENT = "kube-controller-manager/bridgehead"
_COMPONENT = "kube-controller-manager"
_SCHEDULER = "kube-scheduler"  # where only the scheduler runs


@dataclass(frozen=True, kw_only=True)
class Options(LeaderElectionOptions):
    kubeconfig: Path | None = option(
        None, OPTIONS, "Kubeconfig file. Default: the pod's service account.", envvar="KUBECONFIG"
    )
    controllers: str = option(
        "*", OPTIONS, "Controllers to run, separated by commas: `*` for all, `-NAME` to exclude one."
    )
    max_endpoints_per_slice: int = option(
        DEFAULT_MAX_ENDPOINTS, OPTIONS, "Maximum number of endpoints in an EndpointSlice.", min=1, max=1000
    )
    node_monitor_grace_period: float = option(
        40.0, OPTIONS, "Seconds without a heartbeat after which a node is not ready.", min=1
    )
    root_ca_file: Path | None = option(
        None, OPTIONS, "Certificate to publish as ConfigMap kube-root-ca.crt in each namespace."
    )
    service_account_private_key_file: Path | None = option(
        None, OPTIONS, "RSA or ECDSA key that signs tokens in Secrets (PEM). Default: they get none."
    )
    cluster_signing_cert_file: Path | None = option(
        None, OPTIONS, "CA that signs approved CertificateSigningRequests (PEM)."
    )
    cluster_signing_key_file: Path | None = option(None, OPTIONS, "Key of this CA (PEM).")
    cluster_signing_duration: str = option(
        "8760h", OPTIONS, "Longest lifetime of a signed certificate, as a duration such as 8760h."
    )
    metrics: str = option(
        "", OPTIONS, f'Address of /metrics and /healthz, [HOST]:PORT; port {METRICS_PORT} by default. "": none.'
    )
    verbosity: int = verbosity_row()


def command(options: Options) -> None:
    configure(options.verbosity)
    try:
        names = select_controllers(options.controllers)
    except ValueError as error:
        fail("controllers", f"--controllers: {error}", 2)
    component = _SCHEDULER if names == ["scheduler"] else _COMPONENT
    election = parse_election(options, "controllers", component, "kube-system")
    try:
        signing_seconds = parse_duration(options.cluster_signing_duration)
    except ValueError as error:
        fail("controllers", f"--cluster-signing-duration: {error}", 2)
    try:
        pages = host_port(options.metrics, METRICS_PORT) if options.metrics else None
    except ValueError as error:
        fail("controllers", f"--metrics: {error}", 2)
    try:
        root_ca = options.root_ca_file.read_text(encoding="ascii") if options.root_ca_file else ""
    except OSError as error:
        fail("controllers", f"--root-ca-file: {options.root_ca_file}: {error.strerror}")
    except UnicodeDecodeError:
        fail("controllers", f"--root-ca-file: {options.root_ca_file}: not a certificate (PEM)")
    settings = Settings(
        options.max_endpoints_per_slice,
        options.node_monitor_grace_period,
        root_ca,
        options.service_account_private_key_file,
        options.cluster_signing_cert_file,
        options.cluster_signing_key_file,
        signing_seconds,
    )
    with reporting_failures("controllers", ConfigError, OSError):
        config = load_config(options.kubeconfig)
        dismiss = start_guardian(config, USER_AGENT, election) if election is not None else None
        lost = uvloop.run(_run(config, names, settings, election, component, pages))
    if dismiss is not None and not lost:
        dismiss()
    if lost:
        fail("controllers", "leaderelection lost; start again to stand for election")


async def _run(
    config: ClientConfig,
    names: list[str],
    settings: Settings,
    election: Election | None,
    component: str,
    pages: tuple[str, int] | None,
) -> bool:
    """Run until SIGTERM, SIGINT or the loss of the lease; return whether the lease was lost.

    `component` is the source of the election's Events, `pages` the address of /metrics. Raises OSError when that is
    taken.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    heartbeat.start(loop.call_later)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with ApiClient(config, user_agent=USER_AGENT) as client:
        manager = Manager(client, names, settings)
        if election is not None:
            manager.preload()  # an instance that waits takes over in half the time
            elector = LeaderElector(client, election.key, election.identity, component, election.timings)
            working = asyncio.create_task(elector.run(manager.run))
        else:
            working = asyncio.create_task(manager.run())
        tasks = [working, asyncio.create_task(stop.wait())]
        if pages is not None:
            tasks.append(asyncio.create_task(serve(pages, _routes())))
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        lost = working.done()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()
    return lost


def _routes() -> Routes:
    registry = new_registry(CLIENT_METRICS)
    return {"/healthz": lambda: Page(200, b"ok"), "/metrics": metrics_page(registry)}

"""Give load-balancer addresses to Services, from the pools of MetalLB's and OpenELB's objects.

The controller works with any Kubernetes API server, given by a kubeconfig or, in a pod, by its service account. Missing
definitions of these objects are installed. `bridgehead speaker` announces the addresses. `bridgehead balancer status`
shows which node announces each address, how, since when, and why.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import ssl
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import uvloop
from typer import Argument, Option

from bridgehead.balancer.controller.controller import ControllerSettings
from bridgehead.balancer.controller.stepping_back import SteppingController
from bridgehead.balancer.heartbeat_key import LEASE_NAME
from bridgehead.balancer.page_access import SECURE_PORT, server_context
from bridgehead.client import ApiClient, ClientConfig, LeaderElector, load_config
from bridgehead.client.errors import ClientError, ConfigError
from bridgehead.objects.meta import ObjectKey
from bridgehead.pages import serve

from .failures import fail, reporting_failures
from .groups import ACCESS, ADDRESSES, ONCE, WHAT
from .logs_setup import configure
from .parsing import host_port, path

log = logging.getLogger("bridgehead.balancer")

USER_AGENT = "bridgehead-balancer"
METRICS_PORT = 7472
WEBHOOK_PORT = 9443


class Action(StrEnum):
    RUN = "run"
    STATUS = "status"


def command(
    action: Annotated[
        Action, Argument(metavar="[run|status]", help="Run the controller, or show what is announced and exit.")
    ] = Action.RUN,
    kubeconfig: Annotated[
        str,
        Option(
            envvar="KUBECONFIG",
            rich_help_panel=ACCESS,
            help="Kubeconfig file. Default: the pod's service account; for `status` the lab's.",
        ),
    ] = "",
    name: Annotated[
        str | None,
        Option("--name", envvar="BRIDGEHEAD_NAME", rich_help_panel=ACCESS, help="Name of the lab, for `status`."),
    ] = None,
    state_dir: Annotated[
        Path | None,
        Option("--state-dir", rich_help_panel=ACCESS, parser=path, help="Directory of the lab's state, for `status`."),
    ] = None,
    namespace: Annotated[
        str,
        Option(envvar="METALLB_NAMESPACE", rich_help_panel=ACCESS, help="Namespace of MetalLB's objects."),
    ] = "metallb-system",
    own_namespace: Annotated[
        str,
        Option(rich_help_panel=ACCESS, help="Namespace of the speakers' Secret and of the leader's Lease."),
    ] = "bridgehead-system",
    leader_elect: Annotated[
        bool,
        Option(
            rich_help_panel=ACCESS,
            help="Run only while holding the leader's Lease, for several replicas.",
        ),
    ] = False,
    lb_class: Annotated[
        str,
        Option(
            rich_help_panel=WHAT,
            help="Serve only Services with this spec.loadBalancerClass. Default: those without a class.",
        ),
    ] = "",
    ignore_exclude_lb: Annotated[
        bool,
        Option(
            "--ignore-exclude-lb",
            rich_help_panel=WHAT,
            help="The speakers have this option, too. Default: a Service that only nodes with the label"
            " node.kubernetes.io/exclude-from-external-load-balancers could announce is reported.",
        ),
    ] = False,
    metrics: Annotated[
        str,
        Option(
            rich_help_panel=ADDRESSES,
            help=f"Address of the pages /metrics, /healthz, /readyz and /livez, [HOST]:PORT; port {METRICS_PORT} by"
            " default; empty: none. Without TLS, /metrics answers this machine's programs only.",
        ),
    ] = f":{METRICS_PORT}",
    secure_metrics: Annotated[
        str,
        Option(
            rich_help_panel=ADDRESSES,
            help="Address of the same pages with TLS, for clients with a token that may get /metrics, [HOST]:PORT; port"
            f" {SECURE_PORT} by default; empty: none.",
        ),
    ] = f":{SECURE_PORT}",
    tls_cert_file: Annotated[
        Path | None,
        Option(
            rich_help_panel=ADDRESSES, parser=path, help="Certificate of --secure-metrics (PEM). Default: a new one."
        ),
    ] = None,
    tls_private_key_file: Annotated[
        Path | None,
        Option(rich_help_panel=ADDRESSES, parser=path, help="Private key of --tls-cert-file (PEM)."),
    ] = None,
    webhook: Annotated[
        str,
        Option(
            envvar="BRIDGEHEAD_WEBHOOK_ADDRESS",
            rich_help_panel=ADDRESSES,
            help="Address of this process for the API server, IP[:PORT], at which a webhook checks changes of the"
            f" balancer's objects; port {WEBHOOK_PORT} by default; empty: no webhook.",
        ),
    ] = "",
    cleanup: Annotated[
        bool,
        Option(
            "--cleanup",
            rich_help_panel=ONCE,
            help="Remove what balancers and speakers that no longer run have left in the cluster, and exit: webhooks,"
            " addresses, finalizers, statuses, the Secret and the Lease. For an administrator's kubeconfig.",
        ),
    ] = False,
    verbosity: Annotated[int, Option("-v", "--v", help="Verbosity: 0 for operators, 1 for developers.")] = 0,
) -> None:
    configure(verbosity)
    if action is Action.STATUS:
        from .balancer_status import show_status

        show_status(Path(kubeconfig) if kubeconfig else None, name, state_dir)
        return
    try:
        pages = host_port(metrics, METRICS_PORT) if metrics else None
        secure = host_port(secure_metrics, SECURE_PORT) if secure_metrics else None
        reviews = host_port(webhook, WEBHOOK_PORT) if webhook else None
    except ValueError as error:
        fail("balancer", error, 2)
    if cleanup:
        with reporting_failures("balancer", ConfigError, ClientError):
            lines = asyncio.run(_clean_up(load_config(kubeconfig or None), own_namespace, lb_class))
        sys.stdout.write("".join(f"{line}\n" for line in lines) or "nothing to remove\n")
        return
    settings = ControllerSettings(namespace, own_namespace, lb_class, reviews, ignore_exclude_lb)
    with reporting_failures("balancer", ConfigError, OSError):
        config = load_config(kubeconfig or None)
        context = server_context(tls_cert_file, tls_private_key_file) if secure is not None else None
        lost = uvloop.run(_run(config, settings, pages, secure, context, leader_elect))
    if lost:
        fail("balancer", "lost the leader's lease; start again to stand for election")


async def _clean_up(config: ClientConfig, own_namespace: str, lb_class: str) -> list[str]:
    from bridgehead.balancer.controller.cleanup import clean_up

    async with ApiClient(config, user_agent=USER_AGENT) as client:
        return await clean_up(client, own_namespace, lb_class)


async def _run(
    config: ClientConfig,
    settings: ControllerSettings,
    pages: tuple[str, int] | None,
    secure: tuple[str, int] | None,
    context: ssl.SSLContext | None,
    leader_elect: bool,
) -> bool:
    """Run until SIGTERM, SIGINT or the loss of the lease; return whether the lease was lost.

    `pages`, `secure`: addresses of the pages without and with TLS, whose settings are `context`.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with ApiClient(config, user_agent=USER_AGENT) as client:
        controller = SteppingController(client, settings)
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(stop.wait())]
        access = controller.page_access(secure[1] if secure is not None else 0)
        for address, tls in ((pages, None), (secure, context)):
            if address is not None:
                served = serve(address, controller.routes(), access=access, context=tls)
                tasks.append(asyncio.create_task(served))
        tasks.append(asyncio.create_task(_control(client, controller, settings.own_namespace if leader_elect else "")))
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        lost = not stop.is_set()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()
    return lost


async def _control(client: ApiClient, controller: SteppingController, lease_namespace: str) -> None:
    """Run the controller, with a namespace while holding the Lease there."""
    await controller.prepare()
    if not lease_namespace:
        await controller.run()
        return
    key = ObjectKey(lease_namespace, LEASE_NAME)
    identity = f"{socket.gethostname()}_{os.getpid()}"
    await LeaderElector(client, key, identity).run(controller.run)

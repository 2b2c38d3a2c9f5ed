"""Give load-balancer addresses to Services, from the pools of MetalLB's and OpenELB's objects.

The controller works with any Kubernetes API server, given by a kubeconfig or, in a pod, by its service account. Missing
definitions of these objects are installed. `bridgehead speaker` announces the addresses. `bridgehead balancer status`
shows which node announces each address, how, since when, and why.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import uvloop

from bridgehead.balancer.controller.controller import ControllerSettings
from bridgehead.balancer.controller.stepping_controller import SteppingController
from bridgehead.balancer.heartbeat_key import LEASE_NAME
from bridgehead.balancer.page_access import SECURE_PORT, server_context
from bridgehead.client import ApiClient, ClientConfig, LeaderElector, load_config
from bridgehead.client.errors import ClientError, ConfigError
from bridgehead.pages import serve

from . import metallb_options
from .exit_codes import fail, reporting_failures
from .groups import ACCESS, ADDRESSES, LEADER_ELECTION, ONCE, WHAT
from .leader_election import Election, LeaderElectionOptions, parse_election
from .leader_guardian import start_guardian
from .logs_setup import configure
from .options import argument, option, refused, unused, verbosity_row
from .parsing import host_port

log = logging.getLogger("bridgehead.balancer")

USER_AGENT = "bridgehead-balancer"
METRICS_PORT = 7472
WEBHOOK_PORT = 9443


class Action(StrEnum):
    RUN = "run"
    STATUS = "status"


@dataclass(frozen=True, kw_only=True)
class Options(LeaderElectionOptions, metallb_options.ControllerOptions):
    action: Action = argument(
        Action.RUN, "Run the controller, or show what is announced and exit.", metavar="[run|status]"
    )
    kubeconfig: str = option(
        "", ACCESS, "Kubeconfig file. Default: the pod's service account; for `status` the lab's.", envvar="KUBECONFIG"
    )
    name: str | None = option(None, ACCESS, "Name of the lab, for `status`.", envvar="BRIDGEHEAD_NAME")
    state_dir: Path | None = option(None, ACCESS, "Directory of the lab's state, for `status`.")
    namespace: str = option("metallb-system", ACCESS, "Namespace of MetalLB's objects.", envvar="METALLB_NAMESPACE")
    own_namespace: str = option(
        "bridgehead-system", ACCESS, "Namespace of the speakers' Secret and of the leader's Lease."
    )
    leader_elect: bool = option(
        False,
        LEADER_ELECTION,
        "Run only while holding the leader's Lease, for several replicas.",
        "--leader-elect/--no-leader-elect",
    )
    lb_class: str = option(
        "", WHAT, "Serve only Services with this spec.loadBalancerClass. Default: those without a class."
    )
    ignore_exclude_lb: bool = option(
        False,
        WHAT,
        "The speakers have this option, too. Default: a Service that only nodes with the label"
        " node.kubernetes.io/exclude-from-external-load-balancers could announce is reported.",
    )
    metrics: str = option(
        f":{METRICS_PORT}",
        ADDRESSES,
        f"Address of the pages /metrics, /healthz, /readyz and /livez, [HOST]:PORT; port {METRICS_PORT} by"
        " default; empty: none. Without TLS, /metrics answers this machine's programs only.",
    )
    secure_metrics: str = option(
        f":{SECURE_PORT}",
        ADDRESSES,
        "Address of the same pages with TLS, for clients with a token that may get /metrics, [HOST]:PORT; port"
        f" {SECURE_PORT} by default; empty: none.",
    )
    tls_cert_file: Path | None = option(None, ADDRESSES, "Certificate of --secure-metrics (PEM). Default: a new one.")
    tls_private_key_file: Path | None = option(None, ADDRESSES, "Private key of --tls-cert-file (PEM).")
    webhook: str = option(
        "",
        ADDRESSES,
        "Address of this process for the API server, IP[:PORT], at which a webhook checks changes of the"
        f" balancer's objects; port {WEBHOOK_PORT} by default; empty: no webhook.",
        envvar="BRIDGEHEAD_WEBHOOK_ADDRESS",
    )
    cleanup: bool = option(
        False,
        ONCE,
        "Remove what balancers and speakers that no longer run have left in the cluster, and exit: webhooks,"
        " addresses, finalizers, statuses, the Secret and the Lease. For an administrator's kubeconfig.",
    )
    verbosity: int = verbosity_row()


def command(options: Options) -> None:
    configure(options.verbosity)
    if options.action is Action.STATUS:
        from .balancer_status import show_status

        show_status(Path(options.kubeconfig) if options.kubeconfig else None, options.name, options.state_dir)
        return
    if text := refused(options):
        fail("balancer", text, 2)
    for warning in unused(options):
        log.warning("%s", warning)
    try:
        pages = host_port(options.metrics, METRICS_PORT) if options.metrics else None
        secure = host_port(options.secure_metrics, SECURE_PORT) if options.secure_metrics else None
        reviews = host_port(options.webhook, WEBHOOK_PORT) if options.webhook else None
    except ValueError as error:
        fail("balancer", error, 2)
    if options.cleanup:
        with reporting_failures("balancer", ConfigError, ClientError):
            config = load_config(options.kubeconfig or None)
            lines = asyncio.run(_clean_up(config, options.own_namespace, options.lb_class))
        sys.stdout.write("".join(f"{line}\n" for line in lines) or "nothing to remove\n")
        return
    election = parse_election(options, "balancer", LEASE_NAME, options.own_namespace)
    settings = ControllerSettings(
        options.namespace, options.own_namespace, options.lb_class, reviews, options.ignore_exclude_lb
    )
    with reporting_failures("balancer", ConfigError, OSError):
        config = load_config(options.kubeconfig or None)
        context = server_context(options.tls_cert_file, options.tls_private_key_file) if secure is not None else None
        dismiss = start_guardian(config, USER_AGENT, election) if election is not None else None
        lost = uvloop.run(_run(config, settings, pages, secure, context, election))
    if dismiss is not None and not lost:
        dismiss()
    if lost:
        fail("balancer", "leaderelection lost; start again to stand for election")


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
    election: Election | None,
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
        tasks.append(asyncio.create_task(_control(client, controller, election)))
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        lost = not stop.is_set()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()
    return lost


async def _control(client: ApiClient, controller: SteppingController, election: Election | None) -> None:
    """Run the controller, in an election while it leads."""
    await controller.prepare()
    if election is None:
        await controller.run()
        return
    await LeaderElector(client, election.key, election.identity, USER_AGENT, election.timings).run(controller.run)

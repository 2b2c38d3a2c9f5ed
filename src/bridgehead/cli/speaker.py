"""Announce load-balancer addresses from this node: by ARP and neighbour discovery, BGP and VRRP.

The speaker runs on each node of any cluster, in the node's network namespace, with CAP_NET_ADMIN and CAP_NET_RAW.
Without --kubeconfig it uses the service account of its pod. `bridgehead balancer` gives Services their addresses.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bridgehead.balancer.detection.detector import Detector
from bridgehead.balancer.errors import BalancerError
from bridgehead.racing import race

from . import logs_setup, metallb_options
from .exit_codes import fail, reporting_failures
from .groups import ACCESS, ADDRESSES, TUNING, WHAT
from .options import option, refused, unused, verbosity_row
from .parsing import level

if TYPE_CHECKING:
    from bridgehead.balancer.speaker.assembly import Speaker
    from bridgehead.balancer.speaker.speaker_reconciler import SpeakerOptions
    from bridgehead.client import ClientConfig
    from bridgehead.pages import Handler, Page

log = logging.getLogger("bridgehead.speaker")

BIND_RETRY_SECONDS = 5.0


class Pages(NamedTuple):
    """Ports of the pages, 0 for none; `context` is that of the one with TLS.

    `probe_port` is one of 127.0.0.1, which answers also while this speaker announces nothing for another balancer.
    """

    host: str
    port: int
    secure_port: int
    context: ssl.SSLContext | None
    probe_port: int


@dataclass(frozen=True, kw_only=True)
class Options(metallb_options.SpeakerOptions):
    kubeconfig: str = option("", ACCESS, "Kubeconfig file. Default: the pod's service account.")
    node_name: str = option(
        "", ACCESS, "Name of this node's Node object. Default: the host name.", envvar="METALLB_NODE_NAME"
    )
    namespace: str = option(
        "metallb-system", ACCESS, "Namespace of the configuration objects.", envvar="METALLB_NAMESPACE"
    )
    own_namespace: str = option("bridgehead-system", ACCESS, "Namespace of the Secret with the key of the heartbeats.")
    interfaces: str = option(
        "", WHAT, "Network interfaces that layer 2 uses, separated by commas. Default: all that lead to a network."
    )
    lb_class: str = option(
        "", WHAT, "Announce only Services with this spec.loadBalancerClass. Default: those without a class."
    )
    ignore_exclude_lb: bool = option(
        False, WHAT, "Ignore the label node.kubernetes.io/exclude-from-external-load-balancers of nodes."
    )
    detection_port: int = option(
        7946,
        ADDRESSES,
        "UDP port of the heartbeats between speakers. 0: none; all nodes count as alive.",
        "--detection-port",
        "--ml-bindport",
        envvar="METALLB_ML_BIND_PORT",
        min=0,
        max=65535,
    )
    host: str = option(
        "0.0.0.0", ADDRESSES, "Address of /metrics, /healthz, /readyz and /status.", envvar="METALLB_HOST"
    )
    port: int = option(
        7472,
        ADDRESSES,
        "Port of these pages; 0 disables them. Without TLS, /metrics answers this machine's programs only.",
        min=0,
        max=65535,
    )
    secure_port: int = option(
        9120,
        ADDRESSES,
        "Port of the same pages with TLS, for clients with a token that may get /metrics; 0 disables it.",
        min=0,
        max=65535,
    )
    probe_port: int = option(
        0,
        ADDRESSES,
        "Port of these pages at 127.0.0.1, for probes: also while another balancer runs, whose speakers need"
        " the ports above; 0: none.",
        min=0,
        max=65535,
    )
    tls_cert_file: Path | None = option(None, ADDRESSES, "Certificate of --secure-port (PEM). Default: a new one.")
    tls_private_key_file: Path | None = option(None, ADDRESSES, "Private key of --tls-cert-file (PEM).")
    verbosity: int = verbosity_row("Verbosity: 1 logs details.", metavar="LEVEL", parse=level, group=TUNING)


def command(options: Options) -> None:
    logs_setup.configure(options.verbosity)
    if text := refused(options):
        fail("speaker", text, 2)
    for warning in unused(options):
        log.warning("%s", warning)
    detector = Detector()  # a process that was forked before this module was imported, so that it stays small
    from bridgehead.balancer.page_access import server_context
    from bridgehead.balancer.speaker.speaker_reconciler import SpeakerOptions
    from bridgehead.client import load_config
    from bridgehead.client.errors import ConfigError

    with reporting_failures("speaker", BalancerError, ConfigError):
        try:
            config = load_config(options.kubeconfig or None)
            speaker_options = SpeakerOptions(
                options.node_name or socket.gethostname().strip().lower(),
                options.namespace,
                options.detection_port,
                lb_class=options.lb_class,
                ignore_exclude=options.ignore_exclude_lb,
            )
            used = tuple(filter(None, options.interfaces.split(",")))
            with reporting_failures("speaker", OSError):  # as ssl.SSLError is, too
                context = (
                    server_context(options.tls_cert_file, options.tls_private_key_file) if options.secure_port else None
                )
            pages = Pages(options.host, options.port, options.secure_port, context, options.probe_port)
            asyncio.run(_run(config, detector, speaker_options, options.own_namespace, used, pages))
        finally:
            detector.close()


async def _run(
    config: ClientConfig,
    detector: Detector | None,
    options: SpeakerOptions,
    own_namespace: str,
    interfaces: tuple[str, ...],
    pages: Pages,
) -> None:
    """Announce until SIGTERM, which hands the addresses over to other nodes first, or SIGINT.

    While another balancer runs, nothing is announced, and the ports that its speakers need are free.
    """
    from bridgehead.balancer.speaker.assembly import Speaker
    from bridgehead.balancer.speaker.speakers_secret import SpeakersSecret
    from bridgehead.balancer.workspace import Workspace
    from bridgehead.client import ApiClient, running

    log.info("speaker of node %s", options.node_name)
    ending, interrupted = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ending.set)
    loop.add_signal_handler(signal.SIGINT, interrupted.set)
    probes = Probes(pages.probe_port)
    async with ApiClient(config, user_agent="metallb-speaker/bridgehead") as client:
        secret = SpeakersSecret(client, own_namespace)
        async with running(secret, probes):
            await race(secret.wait_known(), ending.wait(), interrupted.wait())
            while not ending.is_set() and not interrupted.is_set():
                if secret.other:
                    probes.handler = answer_at_rest
                    log.warning("the pod %s is another balancer: nothing is announced while it runs", secret.other)
                    await race(secret.wait(may_announce=True), ending.wait(), interrupted.wait())
                    continue
                with Workspace() as workspace:
                    speaker = Speaker(client, detector or Detector(), options, secret, workspace, interfaces)
                    detector = None  # ends with the speaker
                    probes.handler = speaker_handler(speaker)
                    leave = race(ending.wait(), secret.wait(may_announce=False))
                    await _announce(speaker, pages, leave, interrupted.wait())


def answer_at_rest(method: str, path: str, accept: str) -> Page:
    """Answer a probe while another balancer runs: this speaker does what it should."""
    from bridgehead.pages import Page

    return Page(200, b"another balancer runs")


def answer_unstarted(method: str, path: str, accept: str) -> Page:
    """Answer a probe before it is known whether this speaker may announce."""
    from bridgehead.pages import Page

    return Page(503, b"not all objects are read yet")


def speaker_handler(speaker: Speaker) -> Handler:
    from bridgehead.pages import route

    return route(speaker.routes())


class Probes:
    """The server of the pages for probes. `handler` answers; it changes when the speaker begins or ends."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.handler: Handler = answer_unstarted

    async def run(self) -> None:
        """Serve until cancelled."""
        if self._port:
            from bridgehead.pages import listen

            async def serve() -> None:
                address = ("127.0.0.1", self._port)
                async with await listen([address], lambda *request: self.handler(*request)) as server:
                    await server.serve_forever()

            await _try_again(serve, "probes", self._port)


async def _announce(
    speaker: Speaker,
    pages: Pages,
    leave: Coroutine[Any, Any, Any],
    interrupted: Coroutine[Any, Any, Any],
) -> None:
    """Announce until `leave` ends, which hands the addresses over first, or until `interrupted` does."""
    work = asyncio.ensure_future(_work(speaker, pages))
    leaving, ended = asyncio.ensure_future(leave), asyncio.ensure_future(interrupted)
    await asyncio.wait((work, leaving, ended), return_when=asyncio.FIRST_COMPLETED)
    if not work.done() and not ended.done():
        await speaker.reconciler.leave()
    for task in (leaving, ended, work):
        task.cancel()
    await asyncio.wait((leaving, ended))
    with contextlib.suppress(asyncio.CancelledError):
        await work


async def _work(speaker: Speaker, pages: Pages) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(speaker.run())
        if pages.port:
            tasks.create_task(_serve((pages.host, pages.port), speaker, pages, None))
        if pages.secure_port:
            tasks.create_task(_serve((pages.host, pages.secure_port), speaker, pages, pages.context))


async def _serve(address: tuple[str, int], speaker: Speaker, pages: Pages, context: ssl.SSLContext | None) -> None:
    """Serve the pages. Announcements do not depend on it."""
    from bridgehead.pages import serve

    access = speaker.page_access(pages.secure_port)
    routes = speaker.routes()
    await _try_again(lambda: serve(address, routes, access=access, context=context), "/metrics", address[1])


async def _try_again(serve: Callable[[], Coroutine[Any, Any, None]], what: str, port: int) -> None:
    """Serve until cancelled. A port in use is logged, and tried again."""
    while True:
        try:
            await serve()
        except OSError as error:
            log.error("cannot serve %s on port %d: %s; trying again", what, port, error.strerror)
        await asyncio.sleep(BIND_RETRY_SECONDS)

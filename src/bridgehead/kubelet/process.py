"""The kubelet as a process: opens its connections, runs the pods and the server, ends at SIGTERM.

Called by `bridgehead kubelet`. Pods go on running after the kubelet has ended.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import uvloop

from bridgehead import heartbeat
from bridgehead.client import ApiClient, load_kubeconfig
from bridgehead.client.access_reviews import AccessReviews
from bridgehead.images.service.client import PullerClient
from bridgehead.racing import race
from bridgehead.tls_offers import DEFAULT_OFFER, TlsOffer

from .errors import StartupFailed
from .kubelet import Kubelet
from .metrics.operations import KubeletMetrics
from .node.settings import NodeSettings
from .runtimes.runtime import Runtime, RuntimeFailure
from .runtimes.wire.client import RuntimeClient
from .server.authorization import NodeReviews, server_context
from .server.kubelet_server import KubeletServer

log = logging.getLogger(__name__)

_FILE_THREADS = 2  # for writing volumes; more threads would only cost memory
_RUNTIME_SECONDS = 30.0  # how long to wait for a runtime that starts at the same time
_RUNTIME_WARNING_SECONDS = 2.0  # how long to wait before the log mentions it


class TlsFiles(NamedTuple):
    certificate: Path
    key: Path
    client_ca: Path
    offer: TlsOffer = DEFAULT_OFFER


def run_kubelet(
    settings: NodeSettings, kubeconfig: Path, runtime_socket: Path, tls: TlsFiles | None, puller: PullerClient | None
) -> None:
    """Run the kubelet. Without a `puller`, pull nothing.

    Run until SIGTERM or SIGINT. Raises ConfigError, OSError, `StartupFailed`, `RuntimeFailure`."""
    uvloop.run(_run(settings, kubeconfig, runtime_socket, tls, puller))


async def _run(
    settings: NodeSettings, kubeconfig: Path, runtime_socket: Path, tls: TlsFiles | None, puller: PullerClient | None
) -> None:
    config = load_kubeconfig(kubeconfig)
    context = None
    if tls is not None:
        try:
            context = server_context(*tls)
        except ssl.SSLError as error:
            raise StartupFailed(f"can't use {tls.certificate}, {tls.key}, {tls.client_ca}: {error}") from error
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    heartbeat.start(loop.call_later)
    loop.set_default_executor(ThreadPoolExecutor(_FILE_THREADS, "files"))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    metrics = KubeletMetrics()
    async with (
        ApiClient(config, "kubelet/bridgehead") as client,
        RuntimeClient(str(runtime_socket), metrics.record_operation) as runtime,
    ):
        await _wait_for_runtime(runtime, runtime_socket, stop)
        if stop.is_set():
            return
        kubelet = Kubelet(settings, client, runtime, puller, metrics)
        parts: list[Awaitable[object]] = [kubelet.run()]
        if context is not None:
            server = KubeletServer(kubelet, NodeReviews(AccessReviews(client), settings.name))
            parts.append(server.run(settings.ip, settings.port, context))
        await race(*parts, stop.wait())
    log.info("stopped; containers keep running")


async def _wait_for_runtime(runtime: Runtime, path: Path, stop: asyncio.Event) -> None:
    """Wait until the runtime answers. Raises `RuntimeFailure` when it does not in time."""
    now = asyncio.get_running_loop().time
    warn_at, until = now() + _RUNTIME_WARNING_SECONDS, now() + _RUNTIME_SECONDS
    while not stop.is_set():
        try:
            await runtime.list_sandboxes()
            return
        except RuntimeFailure:
            if now() > until:
                raise
            if now() > warn_at:
                log.warning("waiting for the runtime at %s, %.0f s at most", path, _RUNTIME_SECONDS)
                warn_at = until
        await asyncio.sleep(0.05)

"""Lead ports of this machine to Services of a cluster, or to its node ports, and follow the Services.

It reaches the cluster's addresses from where it runs: beside the nodes. `bridgehead up --publish` runs it as a part of
a lab. `bridgehead open` is for a Service at a time.

Example:

    bridgehead forwarder --kubeconfig FILE --publish 8080:80/web --publish udp:5353:53/kube-dns.kube-system
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bridgehead import heartbeat
from bridgehead.client import ApiClient, ClientConfig, load_config
from bridgehead.client.errors import ConfigError
from bridgehead.forwarding.forwarder import Forward, Forwarder
from bridgehead.forwarding.local_ports import PortUnusable, open_port
from bridgehead.forwarding.published import FORM, parse_all_published
from bridgehead.racing import race

from .exit_codes import fail, reporting_failures
from .groups import OPTIONS
from .logs_setup import configure
from .options import option, verbosity_row

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Options:
    kubeconfig: Path | None = option(
        None, OPTIONS, "Kubeconfig file. Default: the pod's service account.", envvar="KUBECONFIG"
    )
    publish: list[str] | None = option(None, OPTIONS, f"{FORM}; the option may be repeated.")
    listen_fds: str = option(
        "",
        OPTIONS,
        "Descriptors of the sockets for --publish, in its order, which whoever starts the program has bound.",
    )
    verbosity: int = verbosity_row()


def command(options: Options) -> None:
    configure(options.verbosity)
    try:
        published = parse_all_published(options.publish or [])
        descriptors = [int(number) for number in options.listen_fds.split(",") if number]
        if not published or (descriptors and len(descriptors) != len(published)):
            raise ValueError("--publish is missing, or --listen-fds has another number of ports")
    except ValueError as error:
        fail("forwarder", error, 2)
    with reporting_failures("forwarder", ConfigError, PortUnusable, OSError):
        if descriptors:
            sockets = [socket.socket(fileno=number) for number in descriptors]
        else:
            sockets = [open_port(each.protocol, each.local) for each in published]
        forwards = [
            Forward(each.service, each.port, each.protocol, local)
            for each, local in zip(published, sockets, strict=True)
        ]
        uvloop.run(_run(load_config(options.kubeconfig), forwards))


async def _run(config: ClientConfig, forwards: Sequence[Forward]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    heartbeat.start(loop.call_later)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with ApiClient(config, user_agent="bridgehead-forwarder") as client:
        await race(Forwarder(client, forwards, None, log.info).run(), stop.wait())

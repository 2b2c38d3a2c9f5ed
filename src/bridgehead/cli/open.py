"""Open Services of a lab on this machine: local ports that lead through the lab's own rules.

Each address is printed on a line of its own. It leads to the load-balancer address, the node port or the cluster IP of
the Service, the first that there is, as a client beside the nodes reaches it; --through chooses. TCP and UDP. Ctrl-C
ends it, and so does the end of the lab.

Examples:

    bridgehead open service/web
    bridgehead open service/web:80 service/redis -n shop
    bridgehead open service/web --port 8080 --through cluster-ip
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from bridgehead.forwarding.targets import Route
from bridgehead.lab.plan import LabFiles, RunningLab
from bridgehead.objects.meta import ObjectKey
from bridgehead.racing import race

from .cluster_access import Cluster, Kubeconfig, Namespace, choose_cluster
from .exit_codes import fail, reporting_failures
from .foreground import has_desktop, run_in_lab, until_end
from .lab_options import Name, StateDir
from .service_targets import check_scope, parse_service_port

if TYPE_CHECKING:
    from bridgehead.forwarding.forwarder import Forward
    from bridgehead.objects.core.services import Service, ServicePort

_MOST_SERVICES = 64


def command(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="service/NAME[:PORT]...", show_default=False, help="The Services; all ports without PORT."
        ),
    ],
    namespace: Namespace = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            show_default=False,
            help="Port on 127.0.0.1, for one port of one Service. Default: the node port or the Service's if free.",
        ),
    ] = None,
    through: Annotated[
        Route | None, typer.Option(show_default=False, help="The route into the lab. Default: the first that there is.")
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the first address in this desktop's browser.")
    ] = True,
    kubeconfig: Kubeconfig = None,
    name: Name = None,
    state_dir: StateDir = None,
) -> None:
    try:
        check_scope(namespace, all_namespaces=False)
        wanted = [parse_service_port(text) for text in targets]
        if len(wanted) > _MOST_SERVICES:
            raise ValueError(f"{len(wanted)} Services; {_MOST_SERVICES} can be opened at once")
    except ValueError as error:
        fail("open", error, 2)
    cluster = choose_cluster("open", kubeconfig, name, state_dir)
    if cluster.lab is None or cluster.files is None:
        fail("open", "only Services of a lab of this machine can be opened; kubectl port-forward leads to other pods")
    services = [(ObjectKey(cluster.namespace(namespace), service), number) for service, number in wanted]
    with contextlib.suppress(KeyboardInterrupt):
        _open(cluster, cluster.lab, cluster.files, services, port, through, browser)


def _open(
    cluster: Cluster,
    lab: RunningLab,
    files: LabFiles,
    services: Sequence[tuple[ObjectKey, int]],
    local: int | None,
    through: Route | None,
    browser: bool,
) -> None:
    from bridgehead.client.errors import ClientError
    from bridgehead.forwarding.forwarder import Forward
    from bridgehead.forwarding.local_ports import PortUnusable, open_port, show_address
    from bridgehead.forwarding.targets import NoTarget

    with reporting_failures("open", ClientError, NoTarget, PortUnusable, OSError):
        ports = asyncio.run(_find_ports(cluster, services, through))
        if local and len(ports) > 1:
            fail("open", f"--port is for one port; the Services have {len(ports)}: service/NAME:PORT chooses one", 2)
        forwards, addresses = [], []
        for key, found in ports:
            bound = open_port(found.protocol, local or 0, (found.node_port, found.port))
            forwards.append(Forward(key, found.port, found.protocol, bound))
            addresses.append(show_address(found, bound.getsockname()[1]))
        sys.stdout.write("".join(f"{address}\n" for address in addresses))
        sys.stdout.flush()
        if browser and has_desktop():
            _show(addresses)
        run_in_lab(lab, partial(_forward, lab, files, forwards, through))


async def _find_ports(
    cluster: Cluster, services: Sequence[tuple[ObjectKey, int]], through: Route | None
) -> list[tuple[ObjectKey, ServicePort]]:
    """Return the wanted ports. Raises NoTarget for a port to which nothing leads now, and NotFound."""
    from bridgehead.forwarding.targets import find_ports, find_target
    from bridgehead.objects.kinds import NODES, SERVICES

    found: dict[tuple[ObjectKey, int, str], ServicePort] = {}
    async with cluster.connect("bridgehead-open") as (client, _):
        nodes = (await client.list(NODES)).items
        for key, number in services:
            service: Service = await client.get(SERVICES, key.name, key.namespace)
            for port in find_ports(service, number):
                find_target(service, port, nodes, through)
                found[key, port.port, port.protocol] = port
    return [(key, port) for (key, *_), port in found.items()]


async def _forward(lab: RunningLab, files: LabFiles, forwards: Sequence[Forward], through: Route | None) -> None:
    from bridgehead.client import ApiClient, load_kubeconfig
    from bridgehead.forwarding.forwarder import Forwarder

    with until_end(lab) as ended:
        async with ApiClient(load_kubeconfig(files.inside_kubeconfig), "bridgehead-open") as client:
            await race(Forwarder(client, forwards, through, _report).run(), ended.wait())


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _show(addresses: Sequence[str]) -> None:
    import webbrowser

    pages = [address for address in addresses if address.startswith("http")]
    if pages:
        webbrowser.open(pages[0])

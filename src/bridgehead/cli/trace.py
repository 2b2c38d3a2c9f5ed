"""Show the whole way of a connection, make it, and follow it through the kernel.

TARGET is a name as a program would write it (web, web.prod, web.prod.svc.cluster.local), an address, service/NAME or
pod/NAME, each with or without :PORT. The first line states whether the connection works, or at which step it dies and
why; then come the differences between the objects of the API and the kernel, and the steps with their evidence. One
real connection is made, and closed at once; of UDP, one datagram is sent. A node's rules are not changed: one rule in a
table of its own marks this one connection, and the kernel removes it with the command. Exit code 0 only when the
connection works.

Examples:

    bridgehead trace web
    bridgehead trace --from pod/client service/web:80
    bridgehead trace --from outside 10.0.0.201:30080
    bridgehead trace --protocol udp kube-dns.kube-system:53 -o json
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .cluster_access import Cluster, Kubeconfig, Name, Namespace, Output, StateDir, choose_cluster, run_reporting
from .exit_codes import fail
from .service_targets import check_scope

if TYPE_CHECKING:
    from bridgehead.insight.trace.context import Request
    from bridgehead.insight.trace.report import Report


def command(
    target: Annotated[str, typer.Argument(metavar="TARGET[:PORT]", show_default=False, help="Where to connect to.")],
    origin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="pod/NAME|node/NAME|outside",
            show_default=False,
            help="Where the connection comes from. Default: a pod of the namespace.",
        ),
    ] = None,
    namespace: Namespace = None,
    protocol: Annotated[Literal["tcp", "udp", "sctp"], typer.Option(help="Protocol.")] = "tcp",
    output: Output = "text",
    kubeconfig: Kubeconfig = None,
    name: Name = None,
    state_dir: StateDir = None,
) -> None:
    from bridgehead.insight.trace.context import Request
    from bridgehead.insight.trace.destination import PortMissing
    from bridgehead.insight.trace.origins import NoOrigin
    from bridgehead.insight.trace.rendering import render
    from bridgehead.insight.trace.target import BadTarget, parse_origin, parse_target

    try:
        parsed, source = parse_target(target), parse_origin(origin) if origin is not None else None
        check_scope(namespace, all_namespaces=False)
    except (BadTarget, ValueError) as error:
        fail("trace", error, 2)
    cluster = choose_cluster("trace", kubeconfig, name, state_dir)
    request = Request(
        target=parsed,
        text=target,
        origin=source,
        namespace=cluster.namespace(namespace),
        protocol=protocol,
    )
    try:
        report = run_reporting("trace", _trace(cluster, request), NoOrigin)
    except PortMissing as error:
        fail("trace", error, 2)
    if output == "json":
        import msgspec

        sys.stdout.write(f"{json.dumps(msgspec.to_builtins(report), indent=2)}\n")
    else:
        sys.stdout.write(render(report))
    if report.works is not True:
        raise typer.Exit(1)


async def _trace(cluster: Cluster, request: Request) -> Report:
    from bridgehead.insight.trace.tracing import trace

    async with cluster.connect("bridgehead-trace") as (client, namespaces):
        return await trace(client, namespaces, request)

"""Show the live connections of Services: client, backend, state, bytes, node; and how many each backend has.

The connection tracking of every node is read, or of one (--node). Bytes and ages are shown if the nodes' kernels record
them (net.netfilter.nf_conntrack_acct, nf_conntrack_timestamp). --watch shows them again every two seconds.

Exits 1 if no node can be looked at.

Examples:

    bridgehead flows
    bridgehead flows service/web --watch
    bridgehead flows -n kube-system service/kube-dns -o json
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .cluster_access import (
    AllNamespaces,
    Cluster,
    Kubeconfig,
    Name,
    Namespace,
    Output,
    StateDir,
    choose_cluster,
    run_reporting,
)
from .exit_codes import fail
from .service_targets import check_scope, parse_service

if TYPE_CHECKING:
    from bridgehead.insight.findings import Unseen

WATCH_SECONDS = 2.0
_MOST_SHOWN = 100  # connections of a Service, in text
_CLEAR = "\x1b[H\x1b[2J"


def command(
    target: Annotated[
        str | None, typer.Argument(metavar="[service/NAME]", show_default=False, help="Only this Service.")
    ] = None,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    node: Annotated[str | None, typer.Option("--node", show_default=False, help="Only what this node tracks.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show them again every two seconds.")] = False,
    output: Output = "text",
    kubeconfig: Kubeconfig = None,
    name: Name = None,
    state_dir: StateDir = None,
) -> None:
    try:
        service = parse_service(target) if target is not None else ""
        check_scope(namespace, all_namespaces, has_names=bool(service))
    except ValueError as error:
        fail("flows", error, 2)
    cluster = choose_cluster("flows", kubeconfig, name, state_dir)
    where = cluster.namespace(namespace) if service else namespace
    run_reporting("flows", _show(cluster, service, where, node, watch=watch, is_json=output == "json"))


async def _show(
    cluster: Cluster, service: str, namespace: str | None, node: str | None, *, watch: bool, is_json: bool
) -> None:
    async with cluster.connect("bridgehead-flows") as (client, namespaces):
        while True:
            text, is_seen = await _look(client, namespaces, service, namespace, node, is_json=is_json)
            if watch and not is_json:
                clear = _CLEAR if sys.stdout.isatty() else ""
                text = f"{clear}{time.strftime('%H:%M:%S')}\n{text}"
            sys.stdout.write(text)
            sys.stdout.flush()
            if not watch:
                if not is_seen:
                    raise typer.Exit(1)
                return
            await asyncio.sleep(WATCH_SECONDS)


async def _look(
    client: Any, namespaces: Any, service: str, namespace: str | None, node: str | None, *, is_json: bool
) -> tuple[str, bool]:
    """Return the flows as text, and whether the connections of any node could be read."""
    from bridgehead.insight.expectations import expect_node
    from bridgehead.insight.facts.cluster_reading import read_cluster
    from bridgehead.insight.facts.network_reading import read_node
    from bridgehead.insight.facts.network_state import Section
    from bridgehead.insight.findings import Unseen
    from bridgehead.insight.flows import find_flows, service_as_json
    from bridgehead.objects.meta import ObjectKey

    from .node_choice import choose_node, chosen_services, known_nodes, missing_sections, require_service

    state = await read_cluster(client)
    if service and namespace is not None:
        require_service("flows", state, ObjectKey(namespace, service))
    nodes = [choose_node("flows", state, node)] if node is not None else known_nodes(state)

    reads = (read_node(namespaces, name, (Section.CONNECTIONS,)) for name in nodes)
    networks = dict(zip(nodes, await asyncio.gather(*reads), strict=True))
    expected = {name: expect_node(state, name) for name in nodes}
    unseen = [*state.unseen]
    for name, network in networks.items():
        unseen += missing_sections(name, network)
        if network.is_connections_cut:
            unseen.append(Unseen(f"all connections of {name}", "it has more than are read at once"))
    is_seen = any(Section.CONNECTIONS not in network.unseen for network in networks.values())
    found = find_flows(state, networks, expected, chosen_services(state, service, namespace))
    if is_json:
        services = [service_as_json(one) for one in found if service or one.flows]
        return f"{json.dumps({'unseen': list(map(str, unseen)), 'services': services})}\n", is_seen
    return _as_text(found, unseen, shows_empty=bool(service) and is_seen, is_seen=is_seen), is_seen


def _as_text(found: Any, unseen: list[Unseen], *, shows_empty: bool, is_seen: bool) -> str:
    from bridgehead.insight.findings import printable
    from bridgehead.insight.flows import backend_rows, flow_rows

    from .node_choice import missing_lines
    from .tables import columns

    parts = []
    for one in found:
        if not one.flows and not shows_empty:
            continue
        opened = sum(flow.is_open for flow in one.flows if not flow.is_relayed)
        parts.append(f"{printable(one.service)}  {opened} open connection{'s' * (opened != 1)}\n")
        if one.backends:
            parts.append(_indented(columns(backend_rows(one.backends))))
        if one.flows:
            parts.append(_indented(columns(flow_rows(one.flows[:_MOST_SHOWN]))))
        if len(one.flows) > _MOST_SHOWN:
            parts.append(f"  and {len(one.flows) - _MOST_SHOWN} more; -o json has all\n")
        parts.append("\n")
    if not is_seen:
        parts.append("the connections of no node could be looked at\n")
    elif not any(one.flows for one in found):
        parts.append("no connections\n")
    parts.append(missing_lines(unseen))
    return "".join(parts)


def _indented(text: str) -> str:
    from bridgehead.insight.findings import printable

    return "".join(f"  {printable(line)}\n" for line in text.splitlines())

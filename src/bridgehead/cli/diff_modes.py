"""Show what differs between two proxy modes, for the Services of this cluster.

Both modes are rendered for one node from the cluster's own objects and the configuration in the ConfigMap kube-proxy.
Only differences that somebody can observe are listed, and only those that a Service of the cluster has. The command
changes nothing.

Examples:

    bridgehead diff-modes nftables ipvs
    bridgehead diff-modes iptables nftables service/web
"""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from bridgehead.proxy.config import MODES
from bridgehead.suggestions import did_you_mean

from .cluster_access import (
    AllNamespaces,
    Cluster,
    Kubeconfig,
    Name,
    Namespace,
    Node,
    Output,
    StateDir,
    choose_cluster,
    run_reporting,
)
from .exit_codes import fail
from .service_targets import check_scope, parse_service

_MOST_NAMED = 5  # Services in a line


def command(
    first: Annotated[str, typer.Argument(metavar="MODE", show_default=False, help=f"{', '.join(MODES)}.")],
    second: Annotated[str, typer.Argument(metavar="MODE", show_default=False, help="The other mode.")],
    target: Annotated[
        str | None, typer.Argument(metavar="[service/NAME]", show_default=False, help="Only for this Service.")
    ] = None,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    node: Node = None,
    output: Output = "text",
    kubeconfig: Kubeconfig = None,
    name: Name = None,
    state_dir: StateDir = None,
) -> None:
    try:
        for mode in (first, second):
            if mode not in MODES:
                raise ValueError(f"{mode!r} is no mode; {', '.join(MODES)} are{did_you_mean(mode[:40], MODES)}")
        service = parse_service(target) if target is not None else ""
        check_scope(namespace, all_namespaces, has_names=bool(service))
    except ValueError as error:
        fail("diff-modes", error, 2)
    cluster = choose_cluster("diff-modes", kubeconfig, name, state_dir)
    where = cluster.namespace(namespace) if service else namespace
    run_reporting("diff-modes", _show(cluster, (first, second), service, where, node, is_json=output == "json"))


async def _show(
    cluster: Cluster, modes: tuple[str, str], service: str, namespace: str | None, node: str | None, *, is_json: bool
) -> None:
    from bridgehead.insight.expectations import expect_node
    from bridgehead.insight.facts.cluster_reading import read_cluster
    from bridgehead.insight.findings import printable
    from bridgehead.insight.mode_differences import compare_modes
    from bridgehead.objects.meta import ObjectKey

    from .node_choice import choose_node, chosen_services, missing_lines, require_service

    async with cluster.connect("bridgehead-diff-modes") as (client, _):
        state = await read_cluster(client, namespace or "")
    node = choose_node("diff-modes", state, node)
    if service and namespace is not None:
        require_service("diff-modes", state, ObjectKey(namespace, service))
    first, second = (expect_node(state, node, mode=mode) for mode in modes)
    aspects = compare_modes(first, second, chosen_services(state, service, namespace))
    if is_json:
        differences = [
            {
                "name": one.name,
                "behaviours": dict(zip(modes, one.behaviours, strict=True)),
                "services": list(one.services),
            }
            for one in aspects
        ]
        unseen = list(map(str, state.unseen))
        json.dump({"node": node, "differences": differences, "unseen": unseen}, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    if first.config_problem:
        sys.stderr.write(f"{printable(first.config_problem)}; defaults are assumed\n")
    width = max(map(len, modes))
    for one in aspects:
        sys.stdout.write(f"{one.name}{_services(one.services)}\n")
        for mode, text in zip(modes, one.behaviours, strict=True):
            sys.stdout.write(f"  {mode:<{width}}  {printable(text)}\n")
        sys.stdout.write("\n")
    if not aspects:
        sys.stdout.write(f"nothing differs between {modes[0]} and {modes[1]} for these Services\n")
    sys.stdout.write(missing_lines(state.unseen))


def _services(names: tuple[str, ...]) -> str:
    from bridgehead.insight.findings import printable

    if not names:
        return ""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f": {', '.join(map(printable, names[:_MOST_NAMED]))}{more}"

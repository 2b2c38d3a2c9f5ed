"""Show what differs between two proxy modes, for the Services of this cluster.

Both modes are rendered for one node from the cluster's own objects and the configuration in the ConfigMap kube-proxy.
Only differences that somebody can observe are listed, and only those that a Service of the cluster has. The command
changes nothing.

Examples:

    bridgehead diff-modes nftables ipvs
    bridgehead diff-modes iptables nftables service/web
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Annotated

import typer

from bridgehead.client.errors import ClientError
from bridgehead.proxy.config import MODES
from bridgehead.suggestions import did_you_mean

from .cluster_access import Cluster, Kubeconfig, Name, Namespace, StateDir, choose_cluster
from .failures import fail, reporting_failures
from .service_targets import check_namespace, parse_service

_MOST_NAMED = 5  # Services in a line


def command(
    first: Annotated[str, typer.Argument(metavar="MODE", show_default=False, help=f"{', '.join(MODES)}.")],
    second: Annotated[str, typer.Argument(metavar="MODE", show_default=False, help="The other mode.")],
    target: Annotated[
        str | None, typer.Argument(metavar="[service/NAME]", show_default=False, help="Only for this Service.")
    ] = None,
    namespace: Namespace = None,
    node: Annotated[
        str | None, typer.Option("--node", show_default=False, help="Node. Default: the first one.")
    ] = None,
    output: Annotated[str | None, typer.Option("--output", "-o", show_default=False, help="json: print JSON.")] = None,
    kubeconfig: Kubeconfig = None,
    name: Name = None,
    state_dir: StateDir = None,
) -> None:
    try:
        for mode in (first, second):
            if mode not in MODES:
                raise ValueError(f"{mode!r} is no mode; {', '.join(MODES)} are{did_you_mean(mode[:40], MODES)}")
        service = parse_service(target) if target is not None else ""
        check_namespace(namespace or "default")
        if output not in (None, "json"):
            raise ValueError(f"--output {output!r}: only json is known")
    except ValueError as error:
        fail("diff-modes", error, 2)
    cluster = choose_cluster("diff-modes", kubeconfig, name, state_dir)
    with reporting_failures("diff-modes", ClientError):
        try:
            where = namespace or cluster.config.namespace
            asyncio.run(_show(cluster, (first, second), service, where, node, is_json=output == "json"))
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


async def _show(
    cluster: Cluster, modes: tuple[str, str], service: str, namespace: str, node: str | None, *, is_json: bool
) -> None:
    from bridgehead.insight.expectations import expect_node
    from bridgehead.insight.facts.cluster_reading import read_cluster
    from bridgehead.insight.findings import printable
    from bridgehead.insight.modes import compare_modes
    from bridgehead.objects.meta import ObjectKey

    from .node_choice import choose_node, require_service

    async with cluster.connect("bridgehead-diff-modes") as (client, _):
        state = await read_cluster(client, namespace if service else "")
    node = choose_node("diff-modes", state, node)
    if service:
        require_service("diff-modes", state, ObjectKey(namespace, service))
    first, second = (expect_node(state, node, mode=mode) for mode in modes)
    aspects = compare_modes(first, second, {f"{namespace}/{service}"} if service else None)
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
    for unseen_part in state.unseen:
        sys.stderr.write(f"could not look at {printable(str(unseen_part))}\n")
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


def _services(names: tuple[str, ...]) -> str:
    from bridgehead.insight.findings import printable

    if not names:
        return ""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f": {', '.join(map(printable, names[:_MOST_NAMED]))}{more}"

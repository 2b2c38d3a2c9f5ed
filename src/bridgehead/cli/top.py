"""Show Services, pods, nodes, Events, DNS, API and syncs of a cluster in the terminal, as they change.

Keys are those of k9s: `:svc`, `:po`, `:no`, `:ev`, `:dns`, `:api`, `:syncs` and `:ns` choose a table, `/` filters,
enter drills down, esc goes back, d describes, y shows YAML, l the log, x runs doctor, t trace, ? shows all keys, q
quits. It works with any cluster, and changes nothing.

Example:

    bridgehead top
    bridgehead top pods -n kube-system
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from .cluster_access import AllNamespaces, Cluster, Kubeconfig, Name, StateDir, choose_cluster
from .exit_codes import fail
from .service_targets import check_scope

if TYPE_CHECKING:
    from bridgehead.insight.terminal.tables import View


def command(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The first table: svc, po, no, ev, dns, ...")] = "svc",
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", show_default=False, help="Namespace. Default: all namespaces.")
    ] = None,
    all_namespaces: AllNamespaces = False,
    kubeconfig: Kubeconfig = None,
    name: Name = None,
    state_dir: StateDir = None,
) -> None:
    from bridgehead.insight.terminal.tables import BY_ALIAS
    from bridgehead.suggestions import did_you_mean

    view = BY_ALIAS.get(table.lower())
    if view is None:
        fail("top", f"no table is named {table!r}{did_you_mean(table, BY_ALIAS)}", 2)
    try:
        check_scope(namespace, all_namespaces)
    except ValueError as error:
        fail("top", error, 2)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        fail("top", "needs a terminal; `kubectl get` prints tables for programs", 2)
    cluster = choose_cluster("top", kubeconfig, name, state_dir)
    options: list[str] = []
    for option, value in (("--kubeconfig", kubeconfig), ("--name", name), ("--state-dir", state_dir)):
        if value is not None:
            options += [option, str(value)]
    try:
        asyncio.run(_show(cluster, options, view, namespace or ""))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


async def _show(cluster: Cluster, options: list[str], view: View, namespace: str) -> None:
    from bridgehead.client import ApiClient
    from bridgehead.insight.live.cluster import LiveCluster
    from bridgehead.insight.terminal.app import TopApp
    from bridgehead.insight.terminal.inspecting import Inspector

    logging.disable()  # the screen is the table's; what goes wrong is in its last line
    cluster_name = cluster.lab.config.name if cluster.lab is not None else cluster.config.server
    async with ApiClient(cluster.config, "bridgehead-top") as client, LiveCluster(client) as live:
        app = TopApp(live, Inspector(client, options), cluster_name, view=view, namespace=namespace)
        await app.run_async()
    if app.return_code:
        raise typer.Exit(app.return_code)

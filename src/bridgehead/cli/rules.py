"""Read a node's rules for Services aloud: each line of its kernel, and the Service and port that it is there for.

The mechanisms of all proxy modes are understood, also kube-proxy's own chains. --mode shows the rules that the node
would have in a mode that is not in use, and the same is shown for mode ipvs where the configuration asks for it and the
kernel has none. `nft`, `iptables-save` and the like must be on the node, as they are where a proxy runs.

Examples:

    bridgehead rules
    bridgehead rules service/web --node node2
    bridgehead rules service/web --mode ipvs
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Annotated, Any

import typer

from bridgehead.client.errors import ClientError
from bridgehead.proxy.config import MODES

from .cluster_access import Cluster, Kubeconfig, Name, Namespace, StateDir, choose_cluster
from .failures import fail, reporting_failures
from .service_targets import check_namespace, parse_service

ShownNode = Annotated[str | None, typer.Option("--node", show_default=False, help="Node. Default: the first one.")]
Output = Annotated[str | None, typer.Option("--output", "-o", show_default=False, help="json: print JSON.")]


def command(
    target: Annotated[
        str | None, typer.Argument(metavar="[service/NAME]", show_default=False, help="Only the rules of this Service.")
    ] = None,
    namespace: Namespace = None,
    node: ShownNode = None,
    mode: Annotated[
        str | None,
        typer.Option(show_default=False, help="Render the rules in this mode: nftables, iptables, ipvs or userspace."),
    ] = None,
    output: Output = None,
    kubeconfig: Kubeconfig = None,
    name: Name = None,
    state_dir: StateDir = None,
) -> None:
    try:
        service = parse_service(target) if target is not None else ""
        check_namespace(namespace or "default")
        if output not in (None, "json"):
            raise ValueError(f"--output {output!r}: only json is known")
        if mode is not None and mode not in MODES:
            raise ValueError(f"--mode {mode!r}: {', '.join(MODES)} are the modes")
    except ValueError as error:
        fail("rules", error, 2)
    cluster = choose_cluster("rules", kubeconfig, name, state_dir)
    with reporting_failures("rules", ClientError):
        try:
            work = _show(cluster, service, namespace or cluster.config.namespace, node, mode, is_json=output == "json")
            asyncio.run(work)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


async def _show(
    cluster: Cluster, service: str, namespace: str, node: str | None, mode: str | None, *, is_json: bool
) -> None:
    from bridgehead.insight.expectations import expect_node
    from bridgehead.insight.facts.cluster_reading import read_cluster
    from bridgehead.insight.facts.network_reading import read_network
    from bridgehead.insight.facts.network_state import RULES, NetworkState, Section
    from bridgehead.insight.network_namespaces import NotEntered
    from bridgehead.insight.rulesets.reading import read_rules
    from bridgehead.objects.meta import ObjectKey

    from .node_choice import choose_node, describe_missing, require_service

    async with cluster.connect("bridgehead-rules") as (client, namespaces):
        state = await read_cluster(client, namespace if service else "")
        node = choose_node("rules", state, node)
        if service:
            require_service("rules", state, ObjectKey(namespace, service))
        sections = (*RULES, Section.LISTENERS, Section.INTERFACES, Section.ROUTES)
        try:
            network = await read_network(await namespaces.node(node), sections)
        except NotEntered as error:
            network = NetworkState(unseen=dict.fromkeys(sections, str(error)))
    shown = f"{namespace}/{service}" if service else ""
    expected = expect_node(state, node, network)
    unseen = [*map(str, state.unseen), *describe_missing(node, network)]
    addresses = [
        text.partition("/")[0]
        for interface in network.interfaces
        if interface.is_up and interface.name not in ("kube-ipvs0", "lo")
        for text in interface.addresses
    ]
    report: dict[str, Any] = {"node": node, "mode": expected.mode, "unseen": unseen}
    wanted = mode or _wanted_ipvs(state, node, expected.mode)
    if wanted is not None:
        would_be = expect_node(state, node, network, mode=wanted)
        report["rendered"] = _rendered(would_be, shown, addresses, Section.VIRTUAL_SERVERS in network.absent)
    if mode is None:
        rules = read_rules(network, expected.table, expected.table.cluster_ips())
        report["problems"] = list(rules.problems)
        names = {
            address: f"pod {pod.metadata.namespace}/{pod.metadata.name} on {pod.spec.node_name}"
            for address, pod in state.pods_by_address.items()
        }
        _print(report, rules, shown, names, is_json=is_json)
    else:
        _print(report, None, shown, {}, is_json=is_json)


def _wanted_ipvs(state: Any, node: str, in_use: str) -> str | None:
    """Return ipvs if the configuration asks for it and the node cannot use it."""
    progress = state.progress.get(node)
    return "ipvs" if progress is not None and progress.mode.wanted == "ipvs" and in_use != "ipvs" else None


def _rendered(expected: Any, service: str, addresses: list[str], lacks_ipvs: bool) -> list[dict[str, str]]:
    from bridgehead.insight.rulesets.rendering import render_mode

    why = f"in mode {expected.mode}"
    if expected.mode == "ipvs" and lacks_ipvs:
        why = "this kernel has no IPVS; with it"
    return [
        {"mode": expected.mode, "heading": f"{why}, {heading}:", "text": text}
        for heading, text in render_mode(expected, service, addresses)
    ]


def _print(report: dict[str, Any], rules: Any, service: str, names: dict[str, str], *, is_json: bool) -> None:
    from bridgehead.insight.findings import printable
    from bridgehead.insight.rulesets.report import entry_as_json, report_rules

    if is_json:
        if rules is not None:
            entries = rules.of_service(service) if service else rules.entries
            report["rulesOf"] = [mode.value for mode in rules.modes]
            report["entries"] = [entry_as_json(entry) for entry in entries]
            foreign = [one for one in rules.unexplained if not service or one.service.rpartition(":")[0] == service]
            report["unexplained"] = [entry_as_json(entry) for entry in foreign]
        json.dump(report, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    for text in report["unseen"]:
        sys.stderr.write(f"could not look at {printable(text)}\n")
    for text in report.get("problems", ()):
        sys.stderr.write(f"could not understand: {printable(text)}\n")
    if rules is not None:
        found = ", ".join(rules.modes) or "none"
        sys.stdout.write(f"{report['node']}: mode {report['mode']}; rules of: {found}\n\n")
        lines = list(report_rules(rules, service, names))
        sys.stdout.writelines(f"{line}\n" for line in lines)
        if service and not lines:
            sys.stdout.write(f"no rule of {report['node']} is there for {service}\n")
    for rendered in report.get("rendered", ()):
        sys.stdout.write(f"{rendered['heading']}\n\n")
        sys.stdout.writelines(f"{printable(line, 2000)}\n" for line in rendered["text"].splitlines())
        sys.stdout.write("\n")

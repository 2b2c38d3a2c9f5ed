"""Read a node's rules for Services aloud: each line of its kernel, and the Service and port that it is there for.

The mechanisms of all proxy modes are understood, also kube-proxy's own chains. --mode shows the rules that the node
would have in a mode that is not in use, and the same is shown for mode ipvs where the configuration asks for it and the
kernel has none. `nft`, `iptables-save` and the like must be on the node, as they are where a proxy runs. In a cluster
that is no lab, they run by `exec` in a pod of the node's service proxy or network plug-in.

Exits 1 if the node cannot be looked at.

Examples:

    bridgehead rules
    bridgehead rules service/web --node node2
    bridgehead rules service/web --mode ipvs
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .cluster_access import (
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
from .service_targets import check_namespace, parse_service

if TYPE_CHECKING:
    from bridgehead.insight.findings import Unseen

_LONGEST_LINE = 2000  # characters of a rule


def command(
    target: Annotated[
        str | None, typer.Argument(metavar="[service/NAME]", show_default=False, help="Only the rules of this Service.")
    ] = None,
    namespace: Namespace = None,
    node: Node = None,
    mode: Annotated[
        Literal["nftables", "iptables", "ipvs", "userspace"] | None,
        typer.Option(show_default=False, help="Render the rules in this mode."),
    ] = None,
    output: Output = "text",
    kubeconfig: Kubeconfig = None,
    name: Name = None,
    state_dir: StateDir = None,
) -> None:
    try:
        service = parse_service(target) if target is not None else ""
        if namespace is not None:
            check_namespace(namespace)
            if not service:
                raise ValueError("-n needs service/NAME: the rules of a node are those of all namespaces")
    except ValueError as error:
        fail("rules", error, 2)
    cluster = choose_cluster("rules", kubeconfig, name, state_dir)
    work = _show(cluster, service, cluster.namespace(namespace), node, mode, is_json=output == "json")
    run_reporting("rules", work)


async def _show(
    cluster: Cluster, service: str, namespace: str, node: str | None, mode: str | None, *, is_json: bool
) -> None:
    from bridgehead.insight.expectations import expect_node
    from bridgehead.insight.facts.cluster_reading import read_cluster
    from bridgehead.insight.facts.network_reading import read_node
    from bridgehead.insight.facts.network_state import RULES, Section
    from bridgehead.insight.rulesets.reading import read_rules
    from bridgehead.objects.meta import ObjectKey

    from .node_choice import choose_node, missing_sections, require_service

    async with cluster.connect("bridgehead-rules") as (client, namespaces):
        state = await read_cluster(client, namespace if service else "")
        node = choose_node("rules", state, node)
        if service:
            require_service("rules", state, ObjectKey(namespace, service))
        sections = (*RULES, Section.LISTENERS, Section.INTERFACES, Section.ROUTES)
        network = await read_node(namespaces, node, sections)
    shown = f"{namespace}/{service}" if service else ""
    expected = expect_node(state, node, network)
    unseen = [*state.unseen, *missing_sections(node, network)]
    addresses = [
        text.partition("/")[0]
        for interface in network.interfaces
        if interface.is_up and interface.name not in ("kube-ipvs0", "lo")
        for text in interface.addresses
    ]
    report: dict[str, Any] = {"node": node, "mode": expected.mode, "unseen": list(map(str, unseen))}
    wanted = mode or _wanted_ipvs(state, node, expected.mode)
    if wanted is not None:
        would_be = expect_node(state, node, network, mode=wanted)
        report["rendered"] = _rendered(would_be, shown, addresses, Section.VIRTUAL_SERVERS in network.absent)
    is_seen = not all(section in network.unseen for section in RULES)
    if mode is None:
        rules = read_rules(network, expected.table, expected.table.cluster_ips())
        report["problems"] = list(rules.problems)
        names = {
            address: f"pod {pod.metadata.namespace}/{pod.metadata.name} on {pod.spec.node_name}"
            for address, pod in state.pods_by_address.items()
        }
        _print(report, unseen, rules, shown, names, is_json=is_json, is_seen=is_seen)
        if not is_seen:
            raise typer.Exit(1)
    else:
        _print(report, unseen, None, shown, {}, is_json=is_json)


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


def _print(
    report: dict[str, Any],
    unseen: list[Unseen],
    rules: Any,
    service: str,
    names: dict[str, str],
    *,
    is_json: bool,
    is_seen: bool = True,
) -> None:
    from bridgehead.insight.findings import printable
    from bridgehead.insight.rulesets.report import entry_as_json, report_rules

    from .node_choice import missing_lines

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
    if rules is not None and is_seen:
        found = ", ".join(rules.modes) or "none"
        sys.stdout.write(f"{printable(report['node'])}: mode {report['mode']}; rules of: {found}\n\n")
        lines = list(report_rules(rules, service, names))
        sys.stdout.writelines(f"{printable(line, _LONGEST_LINE)}\n" for line in lines)
        if service and not lines:
            sys.stdout.write(f"no rule of {report['node']} is there for {service}\n")
    for rendered in report.get("rendered", ()):
        sys.stdout.write(f"{rendered['heading']}\n\n")
        sys.stdout.writelines(f"{printable(line, _LONGEST_LINE)}\n" for line in rendered["text"].splitlines())
        sys.stdout.write("\n")
    sys.stdout.writelines(f"Could not understand {printable(text)}\n" for text in report.get("problems", ()))
    sys.stdout.write(missing_lines(unseen))

"""Show why a Service does not work: the first cause, its evidence and the fix.

Without a name, all Services are examined, and the parts of the cluster that all of them need. The command reads the
API, the kernels of nodes and the listening sockets of some pods, and sends a DNS query from nodes and from a pod; it
changes nothing. Parts that may not be read are listed.

`--machine` examines this machine instead, before there is a lab: the requirements of a lab, of proxy modes and of pods.

Exits 0 when nothing is broken, 1 when something is or Services cannot be read, 2 for a wrong command line.
Docs: docs/troubleshooting.md.

Examples:

    bridgehead doctor
    bridgehead doctor service/web
    bridgehead doctor -n shop svc/api:80 -o json
    bridgehead doctor --machine
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .cluster_access import (
    AllNamespaces,
    Cluster,
    Form,
    Kubeconfig,
    Name,
    Namespace,
    Output,
    StateDir,
    choose_cluster,
    run_reporting,
)
from .exit_codes import fail
from .lab_options import reporting_errors
from .service_targets import KINDS, check_scope, parse_service_port

if TYPE_CHECKING:
    from bridgehead.insight.doctor.diagnosis import Diagnosis
    from bridgehead.insight.doctor.subjects import Target


def command(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="service/NAME[:PORT]", show_default=False, help="Services to examine. Default: all."),
    ] = None,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    output: Output = "text",
    explain: Annotated[
        str | None, typer.Option(metavar="CAUSE", show_default=False, help="Explain a cause and exit.")
    ] = None,
    machine: Annotated[bool, typer.Option("--machine", help="Examine this machine, not a cluster.")] = False,
    kubeconfig: Kubeconfig = None,
    name: Name = None,
    state_dir: StateDir = None,
) -> None:
    if explain is not None:
        sys.stdout.write(_explanation(explain))
        return
    if machine:
        if targets or namespace is not None or all_namespaces:
            fail("doctor", "--machine excludes names of Services, -n and -A", 2)
        _examine_machine(output, state_dir)
        return
    try:
        names = [parse_service_port(text) for text in _joined(targets or [])]
        check_scope(namespace, all_namespaces, has_names=bool(names))
    except ValueError as error:
        fail("doctor", error, 2)
    cluster = choose_cluster("doctor", kubeconfig, name, state_dir)
    diagnosis = run_reporting("doctor", _examine(cluster, names, namespace))
    from bridgehead.insight.doctor.report import render_json, render_text

    sys.stdout.write(render_json(diagnosis) if output == "json" else render_text(diagnosis))
    sees_services = all(unseen.what != "services" for unseen in diagnosis.unseen)
    if not sees_services and not namespace:
        sys.stderr.write("bridgehead doctor: -n NAMESPACE examines one namespace, for which fewer rights are needed\n")
    if diagnosis.is_broken or diagnosis.unknown or not (sees_services or diagnosis.services):
        raise typer.Exit(1)


def _examine_machine(output: Form, state_dir: Path | None) -> None:
    from bridgehead.lab import state_directories
    from bridgehead.lab.machine_checks import examine_machine

    from .machine_report import is_fit, render_json, render_text

    with reporting_errors():
        root = state_directories.find_files(state_directories.DEFAULT_NAME, state_dir).root
        requirements = list(examine_machine(root))
    sys.stdout.write(render_json(requirements) if output == "json" else render_text(requirements))
    if not is_fit(requirements):
        raise typer.Exit(1)


async def _examine(cluster: Cluster, names: Sequence[tuple[str, int]], namespace: str | None) -> Diagnosis:
    from bridgehead.insight.doctor.reading import examine
    from bridgehead.insight.doctor.subjects import Target
    from bridgehead.objects.meta import ObjectKey

    own = cluster.namespace(namespace)
    targets: list[Target] = [Target(ObjectKey(own, name), port) for name, port in names]
    async with cluster.connect("bridgehead-doctor") as (client, namespaces):
        return await examine(client, namespaces, targets, namespace or "")


def _joined(arguments: Sequence[str]) -> list[str]:
    """Return `service/a service/b` for `service a b`, as kubectl allows."""
    if arguments and arguments[0].lower() in KINDS:
        return [f"service/{name}" for name in arguments[1:]]
    return list(arguments)


def _explanation(text: str) -> str:
    from bridgehead.insight.doctor.catalogue import CAUSES, explain
    from bridgehead.suggestions import did_you_mean

    by_name = {cause.name.lower(): cause for cause in CAUSES.values()}
    cause = by_name.get(text.lower())
    if cause is None:
        suggestion = did_you_mean(text, CAUSES) or "; docs/troubleshooting.md lists them"
        fail("doctor", f"there is no cause {text!r}{suggestion}", 2)
    return explain(cause)

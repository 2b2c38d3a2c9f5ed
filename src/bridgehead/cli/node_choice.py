"""The node and the Services that commands look at, and what they could not look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NoReturn

from bridgehead.insight.facts.cluster_state import ClusterState
from bridgehead.insight.facts.network_state import NetworkState, Section
from bridgehead.insight.findings import Unseen, grouped, printable
from bridgehead.objects.meta import ObjectKey
from bridgehead.suggestions import did_you_mean

from .exit_codes import fail


def known_nodes(state: ClusterState) -> list[str]:
    """Return the names of the nodes; of a cluster whose Nodes cannot be read, those that pods name."""
    return sorted(state.nodes or {pod.spec.node_name for pod in state.pods.values()} - {""})


def choose_node(command: str, state: ClusterState, wanted: str | None) -> str:
    """Return the wanted node, or the first ready one. Exits with a line if there is none."""
    if wanted is not None:
        if state.nodes and wanted not in state.nodes:
            _lacks(command, f"node {printable(wanted)!r} not found", wanted, state.nodes)
        return wanted
    ready = sorted(name for name, node in state.nodes.items() if node.is_ready) or known_nodes(state)
    if not ready:
        fail(command, "the cluster's nodes are unknown; --node names one")
    return ready[0]


def require_service(command: str, state: ClusterState, key: ObjectKey) -> None:
    """Exit with a line if there is no such Service, naming others that have the name or a similar one."""
    if key in state.services or not state.has_seen("services"):
        return
    elsewhere = sorted(each.namespace for each in state.services if each.name == key.name)
    if elsewhere:
        namespaces = ", ".join(printable(namespace) for namespace in elsewhere[:5])
        fail(command, f'service/{key.name} not found in namespace "{key.namespace}"; there is one in {namespaces} (-n)')
    names = [each.name for each in state.services if each.namespace == key.namespace]
    _lacks(command, f'service/{key.name} not found in namespace "{key.namespace}"', key.name, names)


def chosen_services(state: ClusterState, service: str, namespace: str | None) -> set[str] | None:
    """Return the Services to show, `namespace/name`: one, or those of the namespace; None: all."""
    if service:
        return {f"{namespace}/{service}"}
    return {str(key) for key in state.services if key.namespace == namespace} if namespace is not None else None


def _lacks(command: str, text: str, wanted: str, names: Iterable[str]) -> NoReturn:
    fail(command, f"{text}{did_you_mean(wanted, tuple(map(printable, names)))}")


def missing_lines(unseen: Iterable[Unseen]) -> str:
    """Return the last lines of a text: what could not be looked at, a line for each reason."""
    return "".join(f"Could not look at {printable(str(each))}\n" for each in grouped(unseen))


def missing_sections(node: str, network: NetworkState) -> Iterator[Unseen]:
    """Yield the sections of a node's network that could not be read, those with the same reason as one."""
    by_reason: dict[str, list[str]] = {}
    for section in Section:
        if section in network.unseen:
            by_reason.setdefault(network.unseen[section], []).append(section.value)
    for reason, sections in by_reason.items():
        yield Unseen(f"{', '.join(sections)} of {node}", reason)

"""Choice of the node for a pod. Called by `scheduler`.

As in Kubernetes' scheduling framework, filters find the nodes that fit and the reasons of the others; scores choose
among the nodes that fit. Texts, order of filters and weights of scores are those of the default profile of
kube-scheduler (v1.36). `preemption` makes room for a pod that fits nowhere.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from bridgehead.objects.node_fit import preference, untolerated

from .cluster_state import NodeState, PodFacts
from .filters import Reason
from .node_filters import NodeFilters
from .pod_affinity import AffinityIndex
from .preemption import histogram
from .topology_spread import SpreadIndex, domain_score

NO_NODES = "no nodes available to schedule pods"


@dataclass(frozen=True)
class Placement:
    """The node for a pod, or "" and the message why no node fits; `refused` has the reasons of each node."""

    node_name: str = ""
    message: str = ""
    refused: Mapping[str, Sequence[Reason]] = field(default_factory=dict)


def schedule_pod(filters: NodeFilters, nominated: str = "") -> Placement:
    """Choose a node for the pod of `filters`. `nominated`: the node on which room was made for the pod, which comes
    before all others. Deterministic."""
    facts, nodes = filters.facts, filters.nodes
    if not nodes:
        return Placement(message=NO_NODES)
    if nominated in nodes and not filters.refusals(nominated):
        return Placement(node_name=nominated)
    refused: dict[str, Sequence[Reason]] = {}
    fitting: dict[str, NodeState] = {}
    for name, state in nodes.items():
        reasons = filters.refusals(name)
        if reasons:
            refused[name] = reasons
        else:
            fitting[name] = state
    if not fitting:
        return Placement(message=explain(refused.values()), refused=refused)
    if len(fitting) == 1:
        return Placement(node_name=next(iter(fitting)))
    scores = score(facts, fitting, nodes, filters.affinity)
    return Placement(node_name=min(fitting, key=lambda name: (-scores[name], len(fitting[name].pods), name)))


def explain_everywhere(reason: str, nodes: int) -> str:
    """Return the text of a FailedScheduling Event for a pod that no node can have, whatever the node.

    kube-scheduler's plug-in for resource claims, which makes room before the preemption, finds no state of its own
    then: no pod is preempted, and its error ends the text.
    """
    return f"0/{nodes} nodes are available: {reason}. not found" if nodes else NO_NODES


def explain(refused: Iterable[Sequence[Reason]]) -> str:
    """Return the text of a FailedScheduling Event without that of preemption: the number of nodes for each reason."""
    refused = list(refused)
    counts = Counter(str(reason) for reasons in refused for reason in reasons)
    return f"0/{len(refused)} nodes are available: {histogram(counts)}."


# --- Scores ----------------------------------------------------------------------------------------------


def score(
    facts: PodFacts, fitting: Mapping[str, NodeState], nodes: Mapping[str, NodeState], affinity: AffinityIndex
) -> dict[str, float]:
    """Return the scores of the nodes that fit, higher is better: Kubernetes' default scores with their weights."""
    spec = facts.pod.spec
    parts: list[tuple[int, Mapping[str, float]]] = [
        (3, {name: 100 - share for name, share in _shares_of_largest(fitting, partial(_prefer_no_schedule, facts))}),
        (2, dict(_shares_of_largest(fitting, lambda state: preference(spec, state.node) if state.node else 0))),
        (2, _spread_scores(facts, fitting, nodes)),
        (1, {name: _least_allocated(facts, state) for name, state in fitting.items()}),
        (1, {name: _balanced(facts, state) for name, state in fitting.items()}),
    ]
    if affinity.has_preferences:
        parts.append((2, _normalised(fitting, lambda state: affinity.preference(state.node) if state.node else 0)))
    return {name: sum(weight * values[name] for weight, values in parts) for name in fitting}


def _shares_of_largest(
    fitting: Mapping[str, NodeState], value: Callable[[NodeState], int]
) -> Iterable[tuple[str, int]]:
    """Yield the value of each node in percent of the largest one; 0 for each if that is 0."""
    values = {name: value(state) for name, state in fitting.items()}
    largest = max(values.values()) or 1
    return ((name, 100 * number // largest) for name, number in values.items())


def _normalised(fitting: Mapping[str, NodeState], value: Callable[[NodeState], float]) -> dict[str, float]:
    """Scale values to 0..100, the best to 100."""
    values = {name: value(state) for name, state in fitting.items()}
    low, high = min(values.values()), max(values.values())
    if low == high:
        return dict.fromkeys(values, 100.0)
    return {name: 100.0 * (v - low) / (high - low) for name, v in values.items()}


def _prefer_no_schedule(facts: PodFacts, state: NodeState) -> int:
    taints = state.node.spec.taints if state.node else ()
    return len(untolerated(taints, facts.pod.spec.tolerations, ("PreferNoSchedule",)))


def _shares(facts: PodFacts, state: NodeState) -> list[float]:
    """Return the shares of CPU and memory that will be requested on a node, where its amounts are known."""
    return [
        min(1.0, (state.weight[resource] + facts.weight[resource]) / state.allocatable[resource])
        for resource in ("cpu", "memory")
        if state.allocatable.get(resource)
    ]


def _least_allocated(facts: PodFacts, state: NodeState) -> float:
    shares = _shares(facts, state)
    return 100.0 * (1 - sum(shares) / len(shares)) if shares else 0.0


def _balanced(facts: PodFacts, state: NodeState) -> float:
    shares = _shares(facts, state)
    return 100.0 * (1 - (max(shares) - min(shares)) / 2) if shares else 100.0


def _spread_scores(
    facts: PodFacts, fitting: Mapping[str, NodeState], nodes: Mapping[str, NodeState]
) -> dict[str, float]:
    """Score nodes and zones by the number of similar pods, fewer are better.

    Similar pods are those of the pod's own soft constraints or, without any, the pods of the same controller.
    """
    if facts.pod.spec.topology_spread_constraints:
        index = SpreadIndex(facts.pod, nodes, hard=False)
        crowding = {name: index.crowding(state.node) if state.node else 0.0 for name, state in fitting.items()}
    else:
        crowding = _default_crowding(facts, fitting, nodes)
    high, low = max(crowding.values()), min(crowding.values())
    if not high:
        return dict.fromkeys(crowding, 100.0)
    return {name: 100.0 * (high + low - value) / high for name, value in crowding.items()}


def _default_crowding(
    facts: PodFacts, fitting: Mapping[str, NodeState], nodes: Mapping[str, NodeState]
) -> dict[str, float]:
    """Apply kube-scheduler's built-in constraints: host name with maxSkew 3 and zone with maxSkew 5."""
    if not facts.owner:
        return dict.fromkeys(fitting, 0.0)
    zones: Counter[str] = Counter()
    for state in nodes.values():
        if state.node is not None and (zone := state.node.zone):
            zones[zone] += state.owners[facts.owner]
    crowding = {}
    for name, state in fitting.items():
        value = domain_score(state.owners[facts.owner], len(fitting), 3)
        zone = state.node.zone if state.node is not None else ""
        if zone:
            value += domain_score(zones[zone], len(zones), 5)
        crowding[name] = math.floor(value + 0.5) * 1.0
    return crowding

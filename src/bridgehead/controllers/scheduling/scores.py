"""Scores of the nodes that fit a pod: Kubernetes' default scores with their weights (v1.36).

Called by `placement`. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from bridgehead.objects.node_fit import preference, untolerated

from .cluster_state import NodeState, PodFacts
from .pod_affinity import AffinityIndex
from .topology_spread import SpreadIndex, domain_score


def score(
    facts: PodFacts, fitting: Mapping[str, NodeState], nodes: Mapping[str, NodeState], affinity: AffinityIndex
) -> dict[str, float]:
    """Return the scores of the nodes that fit; higher is better. `nodes` are all nodes."""
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

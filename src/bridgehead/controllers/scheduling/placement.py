"""Choice of the node for a pod. Called by `scheduler`.

As in Kubernetes' scheduling framework, filters find the nodes that fit and the reasons of the others; `scores` choose
among the nodes that fit. `preemption` makes room for a pod that fits nowhere.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .cluster_state import NodeState
from .filters import Reason
from .node_filters import NodeFilters
from .refusal_texts import NO_NODES, explain
from .scores import score


@dataclass(frozen=True)
class Placement:
    """The node for a pod, or "" and the message why no node fits; `refused` has the reasons of each node."""

    node_name: str = ""
    message: str = ""
    refused: Mapping[str, Sequence[Reason]] = field(default_factory=dict)


def schedule_pod(filters: NodeFilters, nominated: str = "") -> Placement:
    """Choose a node for the pod of `filters`. `nominated`: the node on which room was made for the pod, which comes
    before all others. Deterministic."""
    nodes = filters.nodes
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
    scores = score(filters.facts, fitting, nodes, filters.affinity)
    return Placement(node_name=min(fitting, key=lambda name: (-scores[name], len(fitting[name].pods), name)))

"""`topologySpreadConstraints`: even spreading of similar pods over nodes, zones or any other label.

Called by `placement`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes "Pod Topology Spread Constraints" and its PodTopologySpread plugin (v1.36).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bridgehead.objects.core import Node, Pod
from bridgehead.objects.meta import LabelSelector
from bridgehead.objects.node_fit import matches_node_affinity, untolerated
from bridgehead.objects.selectors import Requirement, Selector, compile_selector

from .cluster_state import NodeState


def domain_score(count: int, domains: int, max_skew: int) -> float:
    """Return the crowding of a domain with `count` matching pods. The weight grows with the number of domains."""
    return count * math.log(domains + 2) + max_skew - 1


def raw_selector(selector: Mapping[str, Any] | None) -> Selector:
    """Compile an undecoded `LabelSelector` of a pod's spec. None selects nothing."""
    return compile_selector(msgspec.convert(selector, LabelSelector) if selector is not None else None)


def pod_selector(selector: Mapping[str, Any] | None, keys: tuple[str, ...], pod: Pod) -> Selector:
    """Return a constraint's `labelSelector`, narrowed to the pod's values of `matchLabelKeys`."""
    compiled = raw_selector(selector)
    own = tuple(
        Requirement(key, "in", frozenset([pod.metadata.labels[key]])) for key in keys if key in pod.metadata.labels
    )
    return Selector((*compiled.requirements, *own), compiled.selects_nothing)


@dataclass
class _Constraint:
    key: str
    max_skew: int
    min_domains: int
    selector: Selector
    honor_affinity: bool
    honor_taints: bool
    self_match: bool
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def lowest(self) -> int:
        if len(self.counts) < self.min_domains:
            return 0
        return min(self.counts.values(), default=0)


class SpreadIndex:
    """The constraints of a pod, with the number of pods in every domain.

    `hard`: the constraints with DoNotSchedule, else those with ScheduleAnyway.
    """

    def __init__(self, pod: Pod, nodes: Mapping[str, NodeState], *, hard: bool = True) -> None:
        self._constraints = [
            _parse(constraint, pod)
            for constraint in pod.spec.topology_spread_constraints
            if (constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule") == hard
        ]
        self._keys = [constraint.key for constraint in self._constraints]
        for state in nodes.values():
            if state.node is not None and all(key in state.node.metadata.labels for key in self._keys):
                self._count(pod, state.node, state)

    def _count(self, pod: Pod, node: Node, state: NodeState) -> None:
        for constraint in self._constraints:
            if constraint.honor_affinity and not matches_node_affinity(pod.spec, node):
                continue
            if constraint.honor_taints and untolerated(
                node.spec.taints, pod.spec.tolerations, ("NoSchedule", "NoExecute")
            ):
                continue
            domain = node.metadata.labels[constraint.key]
            constraint.counts[domain] = constraint.counts.get(domain, 0) + sum(
                other.pod.metadata.namespace == pod.metadata.namespace
                and not other.pod.is_terminating
                and constraint.selector.matches(other.pod.metadata.labels)
                for other in state.pods.values()
            )

    def violation(self, node: Node) -> bool | None:
        """Return None for a node that fits, True if it lacks a constraint's label, False if it has too many pods."""
        for constraint in self._constraints:
            domain = node.metadata.labels.get(constraint.key)
            if domain is None:
                return True
            skew = constraint.counts.get(domain, 0) + constraint.self_match - constraint.lowest
            if skew > constraint.max_skew:
                return False
        return None

    def crowding(self, node: Node) -> float:
        """Return the crowding of the node's domains over all constraints. Lower is better."""
        total = 0.0
        for constraint in self._constraints:
            domain = node.metadata.labels.get(constraint.key)
            if domain is not None:
                count = constraint.counts.get(domain, 0)
                total += domain_score(count, len(constraint.counts), constraint.max_skew)
        return total


def _parse(constraint: Mapping[str, Any], pod: Pod) -> _Constraint:
    selector = pod_selector(constraint.get("labelSelector"), tuple(constraint.get("matchLabelKeys") or ()), pod)
    return _Constraint(
        key=str(constraint.get("topologyKey", "")),
        max_skew=int(constraint.get("maxSkew", 1)),
        min_domains=int(constraint.get("minDomains") or 1),
        selector=selector,
        honor_affinity=constraint.get("nodeAffinityPolicy", "Honor") == "Honor",
        honor_taints=constraint.get("nodeTaintsPolicy", "Ignore") == "Honor",
        self_match=selector.matches(pod.metadata.labels),
    )

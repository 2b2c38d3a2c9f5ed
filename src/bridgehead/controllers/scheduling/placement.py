"""Which node a pod goes to. Pure: a pod and the `ClusterState` -> a `Placement`; called by `scheduler`.

Two steps as in Kubernetes' scheduling framework: filters say which nodes can take the pod and why the others can't,
scores choose among those that can. Words, order of filters and weights of scores are those of kube-scheduler's default
profile (v1.36). There is no preemption: without priority classes no pod ranks below another.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from bridgehead.objects.core import Node, Taint
from bridgehead.objects.taints import UNSCHEDULABLE

from .cluster_state import NodeState, PodFacts, Port
from .node_fit import (
    matches_node_affinity,
    preference,
    required_node_names,
    tolerates,
    untolerated,
)
from .pod_affinity import AffinityIndex, NamespaceLabels
from .topology_spread import SpreadIndex, domain_score

# Resources whose amount on a node may be unknown (a node agent need not report them); others it has or hasn't.
_MAY_BE_UNKNOWN = frozenset(["cpu", "memory", "ephemeral-storage", "pods"])

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


class Refusal(Enum):
    """Why a node can't take a pod. The value is what the Event says, up to what is filled in.

    Kubernetes left out which taint it was in v1.34; here it is still named, since the reader will want to know.
    """

    UNSCHEDULABLE = "node(s) were unschedulable"
    TAINT = "node(s) had untolerated taint {{{0}}}"
    OTHER_NODE = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    AFFINITY = "node(s) didn't match Pod's node affinity/selector"
    PORTS = "node(s) didn't have free ports for the requested pod ports"
    RESOURCE = "Insufficient {0}"
    TOO_MANY_PODS = "Too many pods"
    SPREAD = "node(s) didn't match pod topology spread constraints"
    SPREAD_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"
    POD_AFFINITY = "node(s) didn't match pod affinity rules"
    POD_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
    EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"


@dataclass(frozen=True)
class Reason:
    """`is_for_good`: whether no pod leaving the node would help."""

    refusal: Refusal
    detail: str = ""
    is_for_good: bool = False

    def __str__(self) -> str:
        return self.refusal.value.format(self.detail)


@dataclass(frozen=True)
class Placement:
    """`node_name` is where the pod goes; when it is "", `message` says why it goes nowhere."""

    node_name: str = ""
    message: str = ""


def place(facts: PodFacts, nodes: Mapping[str, NodeState], namespaces: NamespaceLabels) -> Placement:
    """Choose a node for a pod; `namespaces` are the labels of each. Equal arguments always give the same answer."""
    if not nodes:
        return Placement(message="no nodes available to schedule pods")
    filters = _Filters(facts, nodes, namespaces)
    refused: dict[str, list[Reason]] = {}
    fitting: dict[str, NodeState] = {}
    for name, state in nodes.items():
        reasons = filters.refusals(name, state)
        if reasons:
            refused[name] = reasons
        else:
            fitting[name] = state
    if not fitting:
        return Placement(message=explain(refused.values()))
    if len(fitting) == 1:
        return Placement(node_name=next(iter(fitting)))
    scores = score(facts, fitting, nodes, filters.affinity)
    return Placement(node_name=min(fitting, key=lambda name: (-scores[name], len(fitting[name].pods), name)))


def explain(refused: Iterable[Sequence[Reason]]) -> str:
    """The text of a FailedScheduling event: how many nodes said what."""
    refused = list(refused)
    counts = Counter(str(reason) for reasons in refused for reason in reasons)
    helpless = sum(any(reason.is_for_good for reason in reasons) for reasons in refused)
    preemption = Counter({NOT_HELPFUL: helpless, NO_VICTIMS: len(refused) - helpless})
    total = f"0/{len(refused)} nodes are available: "
    return f"{total}{_histogram(counts)}. preemption: {total}{_histogram(preemption)}."


def _histogram(counts: Mapping[str, int]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items() if count))


# --- Filters ---------------------------------------------------------------------------------------------


class _Filters:
    """The filters for one pod. What depends on all nodes together is worked out once, and only if the pod asks."""

    def __init__(self, facts: PodFacts, nodes: Mapping[str, NodeState], namespaces: NamespaceLabels) -> None:
        self._facts = facts
        self._names = required_node_names(facts.pod.spec)
        self._spread = SpreadIndex(facts.pod, nodes) if facts.pod.spec.topology_spread_constraints else None
        self.affinity = AffinityIndex(facts.pod, nodes, namespaces)

    def refusals(self, name: str, state: NodeState) -> list[Reason]:
        """Why this node can't take the pod: what the first filter that refuses has to say; nothing when it can."""
        node = state.node
        if node is None or (self._names is not None and name not in self._names):
            return [Reason(Refusal.OTHER_NODE, is_for_good=True)]
        spec = self._facts.pod.spec
        unschedulable = Taint(key=UNSCHEDULABLE, effect="NoSchedule")
        if node.spec.unschedulable and not any(tolerates(t, unschedulable) for t in spec.tolerations):
            return [Reason(Refusal.UNSCHEDULABLE, is_for_good=True)]
        taints = untolerated(node.spec.taints, spec.tolerations, ("NoSchedule", "NoExecute"))
        if taints:
            return [Reason(Refusal.TAINT, f"{taints[0].key}: {taints[0].value}", is_for_good=True)]
        if not matches_node_affinity(spec, node):
            return [Reason(Refusal.AFFINITY, is_for_good=True)]
        if ports_conflict(self._facts.ports, state.ports):
            return [Reason(Refusal.PORTS)]
        return insufficient(self._facts, state) or self._together(node)

    def _together(self, node: Node) -> list[Reason]:
        """Filters that look at the pods of other nodes too."""
        if self._spread is not None and (missing := self._spread.refuses(node)) is not None:
            return [Reason(Refusal.SPREAD_LABEL, is_for_good=True) if missing else Reason(Refusal.SPREAD)]
        if not self.affinity.affinity_holds(node):
            return [Reason(Refusal.POD_AFFINITY, is_for_good=True)]
        if not self.affinity.anti_affinity_holds(node):
            return [Reason(Refusal.POD_ANTI_AFFINITY)]
        if not self.affinity.existing_agree(node):
            return [Reason(Refusal.EXISTING_ANTI_AFFINITY)]
        return []


def ports_conflict(wanted: Iterable[Port], taken: Iterable[Port]) -> bool:
    """Whether a port is asked for twice: on the same address, or on all addresses by either side."""
    taken = list(taken)
    return any(
        protocol == other_protocol and number == other_number and (address == other or not address or not other)
        for address, protocol, number in wanted
        for other, other_protocol, other_number in taken
    )


def insufficient(facts: PodFacts, state: NodeState) -> list[Reason]:
    """What the node has too little of."""
    reasons = []
    room_for = state.allocatable.get("pods")
    if room_for is not None and len(state.pods) + 1 > room_for:
        reasons.append(Reason(Refusal.TOO_MANY_PODS))
    for resource, amount in sorted(facts.requests.items()):
        available = state.allocatable.get(resource, None if resource in _MAY_BE_UNKNOWN else 0)
        if amount and available is not None and state.requested[resource] + amount > available:
            reasons.append(Reason(Refusal.RESOURCE, resource, is_for_good=amount > available))
    return reasons


# --- Scores ----------------------------------------------------------------------------------------------


def score(
    facts: PodFacts, fitting: Mapping[str, NodeState], nodes: Mapping[str, NodeState], affinity: AffinityIndex
) -> dict[str, float]:
    """How good each fitting node is, the higher the better: Kubernetes' default scores with their weights."""
    spec = facts.pod.spec
    parts: list[tuple[int, dict[str, float]]] = [
        (3, _normalised(fitting, lambda state: _prefer_no_schedule(facts, state), low_is_good=True)),
        (2, _normalised(fitting, lambda state: preference(spec, state.node) if state.node else 0)),
        (2, _spread_scores(facts, fitting, nodes)),
        (1, {name: _least_allocated(facts, state) for name, state in fitting.items()}),
        (1, {name: _balanced(facts, state) for name, state in fitting.items()}),
    ]
    if affinity.has_preferences:
        parts.append((2, _normalised(fitting, lambda state: affinity.preference(state.node) if state.node else 0)))
    return {name: sum(weight * values[name] for weight, values in parts) for name in fitting}


def _normalised(
    fitting: Mapping[str, NodeState], value: Callable[[NodeState], float], *, low_is_good: bool = False
) -> dict[str, float]:
    """Values stretched to 0..100, the best being 100."""
    values = {name: value(state) for name, state in fitting.items()}
    low, high = min(values.values()), max(values.values())
    if low == high:
        return dict.fromkeys(values, 100.0)
    if low_is_good:
        return {name: 100.0 * (high - v) / (high - low) for name, v in values.items()}
    return {name: 100.0 * (v - low) / (high - low) for name, v in values.items()}


def _prefer_no_schedule(facts: PodFacts, state: NodeState) -> int:
    taints = state.node.spec.taints if state.node else ()
    return len(untolerated(taints, facts.pod.spec.tolerations, ("PreferNoSchedule",)))


def _shares(facts: PodFacts, state: NodeState) -> list[float]:
    """Which part of its CPU and of its memory a node will have given away, where it is known how much it has."""
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
    """The fewer of its kind a node or zone has, the better.

    By the pod's own soft constraints; a pod without any is spread with those of the same controller.
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
    """kube-scheduler's built-in constraints: by host name with maxSkew 3 and by zone with maxSkew 5."""
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

"""Choice of the node for a pod. Called by `scheduler`.

As in Kubernetes' scheduling framework, filters find the nodes that fit and the reasons of the others; scores choose
among the nodes that fit. Texts, order of filters and weights of scores are those of the default profile of
kube-scheduler (v1.36). There is no preemption: without priority classes all pods have the same priority.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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

# Resources whose amount on a node may be unknown, since kubelets need not report them.
_MAY_BE_UNKNOWN = frozenset(["cpu", "memory", "ephemeral-storage", "pods"])

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_NODES = "no nodes available to schedule pods"
NO_VICTIMS = "No preemption victims found for incoming pod"


class Refusal(Enum):
    """Reason why a node does not fit a pod. The value is the template of the Event's text.

    Kubernetes omits the taint since v1.34; here the text still names it, because users need it.
    """

    UNSCHEDULABLE = "node(s) were unschedulable"
    TAINT = "node(s) had untolerated taint {{{0}}}"
    OTHER_NODE = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    AFFINITY = "node(s) didn't match Pod's node affinity/selector"
    PORTS = "node(s) didn't have free ports for the requested pod ports"
    RESOURCE = "Insufficient {0}"
    TOO_MANY_PODS = "Too many pods"
    CLAIM_IN_USE = (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another"
        " pod"
    )
    VOLUME_NODE = "node(s) didn't match PersistentVolume's node affinity"
    NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
    LOST_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    SPREAD = "node(s) didn't match pod topology spread constraints"
    SPREAD_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"
    POD_AFFINITY = "node(s) didn't match pod affinity rules"
    POD_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
    EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"


# Returns why the pod's volumes do not allow a node.
VolumeFilter = Callable[[Node], Refusal | None]


@dataclass(frozen=True)
class Reason:
    """A reason with its details. `is_permanent`: no removal of pods from the node would help."""

    refusal: Refusal
    detail: str = ""
    is_permanent: bool = False

    def __str__(self) -> str:
        return self.refusal.value.format(self.detail)


@dataclass(frozen=True)
class Placement:
    """The node for a pod, or "" and the message why no node fits."""

    node_name: str = ""
    message: str = ""


def schedule_pod(
    facts: PodFacts,
    nodes: Mapping[str, NodeState],
    namespaces: NamespaceLabels,
    volumes: VolumeFilter | None = None,
    exclusive: Collection[str] = (),
) -> Placement:
    """Choose a node for a pod. `namespaces`: the labels of each. `exclusive`: names of the pod's claims that no other
    pod may use. Deterministic."""
    if not nodes:
        return Placement(message=NO_NODES)
    filters = _Filters(facts, nodes, namespaces, volumes, exclusive)
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


def explain_everywhere(reason: str, nodes: int) -> str:
    """Return the text of a FailedScheduling Event for a pod that no node can have, whatever the node."""
    if not nodes:
        return NO_NODES
    total = f"0/{nodes} nodes are available: "
    return f"{total}{reason}. preemption: {total}{nodes} {NOT_HELPFUL}."


def explain(refused: Iterable[Sequence[Reason]]) -> str:
    """Return the text of a FailedScheduling Event: the number of nodes for each reason."""
    refused = list(refused)
    counts = Counter(str(reason) for reasons in refused for reason in reasons)
    helpless = sum(any(reason.is_permanent for reason in reasons) for reasons in refused)
    preemption = Counter({NOT_HELPFUL: helpless, NO_VICTIMS: len(refused) - helpless})
    total = f"0/{len(refused)} nodes are available: "
    return f"{total}{_histogram(counts)}. preemption: {total}{_histogram(preemption)}."


def _histogram(counts: Mapping[str, int]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items() if count))


# --- Filters ---------------------------------------------------------------------------------------------


class _Filters:
    """The filters for one pod. Values that depend on all nodes are computed once, and only if the pod needs them."""

    def __init__(
        self,
        facts: PodFacts,
        nodes: Mapping[str, NodeState],
        namespaces: NamespaceLabels,
        volumes: VolumeFilter | None,
        exclusive: Collection[str],
    ) -> None:
        self._facts = facts
        self._has_claim_in_use = is_claim_in_use(facts.pod.metadata.namespace, exclusive, nodes)
        self._volumes = volumes
        self._names = required_node_names(facts.pod.spec)
        self._spread = SpreadIndex(facts.pod, nodes) if facts.pod.spec.topology_spread_constraints else None
        self.affinity = AffinityIndex(facts.pod, nodes, namespaces)

    def refusals(self, name: str, state: NodeState) -> list[Reason]:
        """Return the reasons of the first filter that rejects the node; none for a node that fits."""
        node = state.node
        if node is None or (self._names is not None and name not in self._names):
            return [Reason(Refusal.OTHER_NODE, is_permanent=True)]
        spec = self._facts.pod.spec
        unschedulable = Taint(key=UNSCHEDULABLE, effect="NoSchedule")
        if node.spec.unschedulable and not any(tolerates(t, unschedulable) for t in spec.tolerations):
            return [Reason(Refusal.UNSCHEDULABLE, is_permanent=True)]
        taints = untolerated(node.spec.taints, spec.tolerations, ("NoSchedule", "NoExecute"))
        if taints:
            return [Reason(Refusal.TAINT, f"{taints[0].key}: {taints[0].value}", is_permanent=True)]
        if not matches_node_affinity(spec, node):
            return [Reason(Refusal.AFFINITY, is_permanent=True)]
        if ports_conflict(self._facts.ports, state.ports):
            return [Reason(Refusal.PORTS)]
        return insufficient(self._facts, state) or self._volume_reasons(node) or self._together(node)

    def _volume_reasons(self, node: Node) -> list[Reason]:
        if self._has_claim_in_use:
            return [Reason(Refusal.CLAIM_IN_USE)]
        refusal = self._volumes(node) if self._volumes is not None else None
        return [] if refusal is None else [Reason(refusal, is_permanent=True)]

    def _together(self, node: Node) -> list[Reason]:
        """Apply the filters that also depend on the pods of other nodes."""
        if self._spread is not None and (missing := self._spread.violation(node)) is not None:
            return [Reason(Refusal.SPREAD_LABEL, is_permanent=True) if missing else Reason(Refusal.SPREAD)]
        if not self.affinity.affinity_holds(node):
            return [Reason(Refusal.POD_AFFINITY, is_permanent=True)]
        if not self.affinity.anti_affinity_holds(node):
            return [Reason(Refusal.POD_ANTI_AFFINITY)]
        if not self.affinity.existing_agree(node):
            return [Reason(Refusal.EXISTING_ANTI_AFFINITY)]
        return []


def ports_conflict(wanted: Iterable[Port], taken: Iterable[Port]) -> bool:
    """Whether a port is wanted and taken on the same address, or on all addresses by one of the two."""
    taken = list(taken)
    return any(
        protocol == other_protocol and number == other_number and (address == other or not address or not other)
        for address, protocol, number in wanted
        for other, other_protocol, other_number in taken
    )


def insufficient(facts: PodFacts, state: NodeState) -> list[Reason]:
    """Return a reason for each resource of which the node has too little."""
    reasons = []
    room_for = state.allocatable.get("pods")
    if room_for is not None and len(state.pods) + 1 > room_for:
        reasons.append(Reason(Refusal.TOO_MANY_PODS))
    for resource, amount in sorted(facts.requests.items()):
        available = state.allocatable.get(resource, None if resource in _MAY_BE_UNKNOWN else 0)
        if amount and available is not None and state.requested[resource] + amount > available:
            reasons.append(Reason(Refusal.RESOURCE, resource, is_permanent=amount > available))
    return reasons


def is_claim_in_use(namespace: str, claims: Collection[str], nodes: Mapping[str, NodeState]) -> bool:
    """Whether a pod on one of the nodes uses one of the claims."""
    return bool(claims) and any(
        other.pod.metadata.namespace == namespace
        and any(volume.claim_name(other.pod.metadata.name) in claims for volume in other.pod.spec.volumes)
        for state in nodes.values()
        for other in state.pods.values()
    )


# --- Scores ----------------------------------------------------------------------------------------------


def score(
    facts: PodFacts, fitting: Mapping[str, NodeState], nodes: Mapping[str, NodeState], affinity: AffinityIndex
) -> dict[str, float]:
    """Return the scores of the nodes that fit, higher is better: Kubernetes' default scores with their weights."""
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
    """Scale values to 0..100, the best to 100."""
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

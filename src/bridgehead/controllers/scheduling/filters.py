"""Filters of nodes for a pod: which nodes fit, and the reasons why the others do not.

Called by `placement` and `preemption`. Texts and order of filters are those of the default profile of kube-scheduler
(v1.36). Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from bridgehead.objects.core import Node, Taint
from bridgehead.objects.host_ports import NO_FREE_PORTS, ports_conflict
from bridgehead.objects.node_fit import matches_node_affinity, required_node_names, tolerates, untolerated
from bridgehead.objects.taints import UNSCHEDULABLE

from .cluster_state import NodeState, PodFacts
from .pod_affinity import AffinityIndex, NamespaceLabels
from .topology_spread import SpreadIndex

# Resources whose amount on a node may be unknown, since kubelets need not report them.
_MAY_BE_UNKNOWN = frozenset(["cpu", "memory", "ephemeral-storage", "pods"])


class Refusal(Enum):
    """Reason why a node does not fit a pod. The value is the template of the Event's text.

    Kubernetes omits the taint since v1.34; here the text still names it, because users need it.
    """

    UNSCHEDULABLE = "node(s) were unschedulable"
    TAINT = "node(s) had untolerated taint {{{0}}}"
    OTHER_NODE = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    AFFINITY = "node(s) didn't match Pod's node affinity/selector"
    PORTS = NO_FREE_PORTS
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


class Filters:
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

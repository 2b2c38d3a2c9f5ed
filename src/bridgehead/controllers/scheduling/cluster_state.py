"""The scheduler's cache of nodes with the sums of their pods' requests, updated pod by pod.

The scheduler's informer handlers and its own decisions change the cache; `placement` only reads it. A decision counts
before its binding is sent, so that the next decision sees it. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from bridgehead.objects.core import Node, Pod
from bridgehead.objects.host_ports import HostPort, host_ports
from bridgehead.objects.pod_resources import amount, pod_requests

# Assumed requests of a container without any when nodes are scored, so that such pods are spread, too.
DEFAULT_CPU = 100
DEFAULT_MEMORY = 200 * 1024 * 1024


@dataclass(frozen=True, eq=False)
class PodFacts:
    """The facts about a pod that scheduling uses, computed once."""

    pod: Pod
    requests: Counter[str]
    weight: Counter[str]  # requests with defaults, for scores
    ports: frozenset[HostPort]
    owner: str  # uid of its controller; "" without one
    has_relations: bool  # whether the pod itself has affinity or anti-affinity to pods

    @classmethod
    def of(cls, pod: Pod) -> PodFacts:
        """Compute the facts. Raises ValueError for an invalid quantity."""
        owner, affinity = pod.metadata.controller, pod.spec.affinity or {}
        return cls(
            pod=pod,
            requests=pod_requests(pod.spec),
            weight=pod_requests(pod.spec, {"cpu": DEFAULT_CPU, "memory": DEFAULT_MEMORY}),
            ports=host_ports(pod.spec),
            owner=owner.uid if owner else "",
            has_relations=bool(affinity.get("podAffinity") or affinity.get("podAntiAffinity")),
        )


@dataclass
class NodeState:
    """A node and the sums of its pods. `node` is None while only pods with its name are known."""

    node: Node | None = None
    allocatable: dict[str, int] = field(default_factory=dict)
    pods: dict[str, PodFacts] = field(default_factory=dict)
    requested: Counter[str] = field(default_factory=Counter)
    weight: Counter[str] = field(default_factory=Counter)
    ports: Counter[HostPort] = field(default_factory=Counter)
    owners: Counter[str] = field(default_factory=Counter)
    related: dict[str, PodFacts] = field(default_factory=dict)

    def copy(self) -> NodeState:
        """Return a copy to which pods can be added, and from which they can be removed."""
        return NodeState(
            node=self.node,
            allocatable=self.allocatable,
            pods=dict(self.pods),
            requested=self.requested.copy(),
            weight=self.weight.copy(),
            ports=self.ports.copy(),
            owners=self.owners.copy(),
            related=dict(self.related),
        )

    def add(self, facts: PodFacts) -> None:
        self.pods[facts.pod.metadata.uid] = facts
        self.requested.update(facts.requests)
        self.weight.update(facts.weight)
        self.ports.update(facts.ports)
        if facts.owner:
            self.owners[facts.owner] += 1
        if facts.has_relations:
            self.related[facts.pod.metadata.uid] = facts

    def remove(self, uid: str) -> None:
        facts = self.pods.pop(uid)
        self.related.pop(uid, None)
        self.requested.subtract(facts.requests)
        self.weight.subtract(facts.weight)
        self.ports.subtract(facts.ports)
        self.ports += Counter()  # drops entries that are zero, so that the map does not grow
        if facts.owner:
            self.owners[facts.owner] -= 1
            if not self.owners[facts.owner]:
                del self.owners[facts.owner]


class ClusterState:
    """Node states by name."""

    def __init__(self) -> None:
        self._states: dict[str, NodeState] = {}
        self._where: dict[str, str] = {}

    def nodes(self) -> dict[str, NodeState]:
        """Return the states of existing nodes, by name."""
        return {name: state for name, state in self._states.items() if state.node is not None}

    def set_node(self, node: Node) -> None:
        state = self._states.setdefault(node.metadata.name, NodeState())
        state.node = node
        state.allocatable = {name: amount(name, value) for name, value in node.status.allocatable.items()}

    def remove_node(self, name: str) -> None:
        state = self._states.get(name)
        if state is not None:
            state.node = None
            self._drop_if_empty(name)

    def add_pod(self, facts: PodFacts, node_name: str) -> None:
        """Count a pod on a node, in place of an earlier count of the pod."""
        uid = facts.pod.metadata.uid
        self.remove_pod(uid)
        self._states.setdefault(node_name, NodeState()).add(facts)
        self._where[uid] = node_name

    def remove_pod(self, uid: str) -> None:
        """Stop counting a pod. Unknown pods are ignored."""
        node_name = self._where.pop(uid, None)
        if node_name is not None:
            self._states[node_name].remove(uid)
            self._drop_if_empty(node_name)

    def node_of(self, uid: str) -> str:
        """Return the node on which a pod counts; "" without one."""
        return self._where.get(uid, "")

    def _drop_if_empty(self, name: str) -> None:
        state = self._states[name]
        if state.node is None and not state.pods:
            del self._states[name]

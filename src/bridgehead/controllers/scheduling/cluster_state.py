"""What the scheduler knows of every node, kept up to date pod by pod instead of being counted anew. No I/O.

The scheduler's informer handlers and its own decisions change it; `placement` only reads it. A decision counts from the
moment it is made (`place` before the binding is sent), so that the next one sees it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from bridgehead.objects.core import Container, Node, Pod, PodSpec
from bridgehead.objects.quantities import milli_value, whole_value

# What a container without requests is taken for when nodes are compared, so that such pods don't pile up on one node.
DEFAULT_CPU = 100
DEFAULT_MEMORY = 200 * 1024 * 1024

Port = tuple[str, str, int]  # host address ("" for all), protocol, number


def _amount(resource: str, value: str | int | float) -> int:
    """CPU in thousandths, everything else in whole units."""
    return milli_value(value) if resource == "cpu" else whole_value(value)


def _amounts(quantities: Mapping[str, str | int | float]) -> Counter[str]:
    return Counter({resource: _amount(resource, value) for resource, value in quantities.items()})


def pod_requests(spec: PodSpec, defaults: Mapping[str, int] | None = None) -> Counter[str]:
    """What a pod asks of its node: its containers together, or an init container when that alone asks for more.

    `defaults` stand in for what a container doesn't ask for.
    """

    def of(container: Container) -> Counter[str]:
        return Counter({**(defaults or {}), **_amounts(container.resources.requests)})

    total: Counter[str] = Counter()
    for container in spec.containers:
        total.update(of(container))
    sidecars: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in spec.init_containers:
        if container.restart_policy == "Always":
            sidecars.update(of(container))
            peak |= sidecars
        else:
            peak |= of(container) + sidecars
    total.update(sidecars)
    return total | peak


def host_ports(spec: PodSpec) -> frozenset[Port]:
    """The ports a pod takes on its node's addresses."""
    return frozenset(
        (port.host_ip if port.host_ip not in ("0.0.0.0", "::") else "", port.protocol, port.host_port)
        for container in (*spec.containers, *(c for c in spec.init_containers if c.restart_policy == "Always"))
        for port in container.ports
        if port.host_port
    )


@dataclass(frozen=True, eq=False)
class PodFacts:
    """What placing needs to know of a pod, worked out once."""

    pod: Pod
    requests: Counter[str]
    weight: Counter[str]  # requests with defaults filled in, for comparing nodes
    ports: frozenset[Port]
    owner: str  # uid of its controller, "" when it has none
    repels: bool  # whether it has anti-affinity of its own

    @classmethod
    def of(cls, pod: Pod) -> PodFacts:
        """Raises ValueError when a request isn't a quantity."""
        owner = pod.metadata.controller
        return cls(
            pod=pod,
            requests=pod_requests(pod.spec),
            weight=pod_requests(pod.spec, {"cpu": DEFAULT_CPU, "memory": DEFAULT_MEMORY}),
            ports=host_ports(pod.spec),
            owner=owner.uid if owner else "",
            repels=bool((pod.spec.affinity or {}).get("podAntiAffinity")),
        )


@dataclass
class NodeState:
    """One node and the sum of what is on it. `node` is None while only pods have told of it."""

    node: Node | None = None
    allocatable: dict[str, int] = field(default_factory=dict)
    pods: dict[str, PodFacts] = field(default_factory=dict)
    requested: Counter[str] = field(default_factory=Counter)
    weight: Counter[str] = field(default_factory=Counter)
    ports: Counter[Port] = field(default_factory=Counter)
    owners: Counter[str] = field(default_factory=Counter)
    repelling: dict[str, PodFacts] = field(default_factory=dict)

    def add(self, facts: PodFacts) -> None:
        self.pods[facts.pod.metadata.uid] = facts
        self.requested.update(facts.requests)
        self.weight.update(facts.weight)
        self.ports.update(facts.ports)
        if facts.owner:
            self.owners[facts.owner] += 1
        if facts.repels:
            self.repelling[facts.pod.metadata.uid] = facts

    def remove(self, uid: str) -> None:
        facts = self.pods.pop(uid)
        self.repelling.pop(uid, None)
        self.requested.subtract(facts.requests)
        self.weight.subtract(facts.weight)
        self.ports.subtract(facts.ports)
        self.ports += Counter()  # drops what fell to zero, so that the map doesn't grow
        if facts.owner:
            self.owners[facts.owner] -= 1
            if not self.owners[facts.owner]:
                del self.owners[facts.owner]


class ClusterState:
    """All nodes by name."""

    def __init__(self) -> None:
        self._states: dict[str, NodeState] = {}
        self._where: dict[str, str] = {}

    def nodes(self) -> dict[str, NodeState]:
        """The nodes that exist, by name."""
        return {name: state for name, state in self._states.items() if state.node is not None}

    def set_node(self, node: Node) -> None:
        state = self._states.setdefault(node.metadata.name, NodeState())
        state.node = node
        state.allocatable = {name: _amount(name, value) for name, value in node.status.allocatable.items()}

    def remove_node(self, name: str) -> None:
        state = self._states.get(name)
        if state is not None:
            state.node = None
            self._drop_if_empty(name)

    def place(self, facts: PodFacts, node_name: str) -> None:
        """Count a pod on a node; again, or on another one, replaces what was counted before."""
        uid = facts.pod.metadata.uid
        self.remove(uid)
        self._states.setdefault(node_name, NodeState()).add(facts)
        self._where[uid] = node_name

    def remove(self, uid: str) -> None:
        """Count a pod no longer. One that isn't counted is fine."""
        node_name = self._where.pop(uid, None)
        if node_name is not None:
            self._states[node_name].remove(uid)
            self._drop_if_empty(node_name)

    def node_of(self, uid: str) -> str:
        """The node a pod is counted on, "" when it is on none."""
        return self._where.get(uid, "")

    def _drop_if_empty(self, name: str) -> None:
        state = self._states[name]
        if state.node is None and not state.pods:
            del self._states[name]

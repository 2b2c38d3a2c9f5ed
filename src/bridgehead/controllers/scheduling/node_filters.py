"""The filters of all nodes for one pod, with regard to the pods that are nominated to a node.

Room is made on a node for a nominated pod, which runs there only once its victims have ended, and maybe never. A node
therefore has to fit a pod twice: with the pods that are nominated to it, and without them, as a nominated pod may not
be what the pod's affinity needs. Called by `scheduler`, `placement` and, through `scheduler`, by `preemption`.

Pure: no I/O, no clock, no randomness. Source: kube-scheduler's `RunFilterPluginsWithNominatedPods` (v1.36).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bridgehead.objects.core import Pod

from .cluster_state import NodeState, PodFacts
from .filters import Filters, Reason, VolumeFilter
from .pod_affinity import AffinityIndex, NamespaceLabels


@dataclass(frozen=True)
class Nomination:
    """A pod for which room is made on a node."""

    facts: PodFacts
    node_name: str


def priority_of(pod: Pod) -> int:
    return pod.spec.priority or 0


class NodeFilters:
    """The filters for `facts.pod` on `nodes`, by name.

    `namespaces`: the labels of each. `exclusive`: names of the pod's claims that no other pod may use. `nominations`:
    only those of other pods with the same or a higher priority count.
    """

    def __init__(
        self,
        facts: PodFacts,
        nodes: Mapping[str, NodeState],
        namespaces: NamespaceLabels,
        *,
        volumes: VolumeFilter | None = None,
        exclusive: Collection[str] = (),
        nominations: Iterable[Nomination] = (),
    ) -> None:
        self.facts = facts
        self.nodes = nodes
        self._namespaces = namespaces
        self._volumes = volumes
        self._exclusive = exclusive
        self._filters = self._make_filters(nodes)
        self._nominated: dict[str, list[PodFacts]] = {}
        for other in nominations:
            goes_before = priority_of(other.facts.pod) >= priority_of(facts.pod)
            if goes_before and other.facts.pod.metadata.uid != facts.pod.metadata.uid:
                self._nominated.setdefault(other.node_name, []).append(other.facts)

    @property
    def affinity(self) -> AffinityIndex:
        """The counts for scores: nominated pods do not count there."""
        return self._filters.affinity

    def refusals(self, name: str) -> Sequence[Reason]:
        """Return the reasons of the first filter that rejects the node; none for a node that fits."""
        return self._refusals_with_nominated(name, self.nodes[name]) or self._filters.refusals(name, self.nodes[name])

    def refusals_in_state(self, name: str, state: NodeState) -> Sequence[Reason]:
        """Return the same for a node in another state, as without the victims of a preemption."""
        changed = self._make_filters({**self.nodes, name: state})
        return self._refusals_with_nominated(name, state) or changed.refusals(name, state)

    def _refusals_with_nominated(self, name: str, state: NodeState) -> Sequence[Reason]:
        """Return the reasons with the pods that are nominated to the node; none if there are no such pods."""
        if name not in self._nominated:
            return ()
        expected = state.copy()
        for other in self._nominated[name]:
            expected.add(other)
        return self._make_filters({**self.nodes, name: expected}).refusals(name, expected)

    def _make_filters(self, nodes: Mapping[str, NodeState]) -> Filters:
        return Filters(self.facts, nodes, self._namespaces, self._volumes, self._exclusive)

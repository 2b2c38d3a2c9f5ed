"""`podAffinity` and `podAntiAffinity`: rules and preferences about other pods in the same topology domain.

Called by `placement`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes "Inter-pod affinity and anti-affinity", its InterPodAffinity plugin (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from bridgehead.objects.core import Node, Pod
from bridgehead.objects.node_fit import PREFERRED, REQUIRED
from bridgehead.objects.selectors import Selector

from .cluster_state import NodeState
from .topology_spread import pod_selector, raw_selector

# Weight of a required affinity of an existing pod, which attracts pods that match it.
_REQUIRED_WEIGHT: Final = 1

NamespaceLabels = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class _Term:
    key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector
    labels: NamespaceLabels
    weight: int = 0

    def matches(self, pod: Pod) -> bool:
        return self._has_namespace(pod.metadata.namespace) and self.selector.matches(pod.metadata.labels)

    def _has_namespace(self, namespace: str) -> bool:
        return namespace in self.namespaces or self.namespace_selector.matches(self.labels.get(namespace, {}))


class _Terms:
    """Parser of affinity terms. `labels`: those of the namespaces."""

    def __init__(self, labels: NamespaceLabels) -> None:
        self._labels = labels

    def required(self, pod: Pod, which: str, weight: int = 0) -> list[_Term]:
        return [self._parse(term, pod, weight) for term in _group(pod, which, REQUIRED)]

    def preferred(self, pod: Pod, which: str, sign: int) -> list[_Term]:
        return [
            self._parse(term.get("podAffinityTerm") or {}, pod, sign * int(term.get("weight", 0)))
            for term in _group(pod, which, PREFERRED)
        ]

    def _parse(self, term: Mapping[str, Any], pod: Pod, weight: int = 0) -> _Term:
        namespaces = frozenset(map(str, term.get("namespaces") or ()))
        if not namespaces and term.get("namespaceSelector") is None:
            namespaces = frozenset([pod.metadata.namespace])
        return _Term(
            key=str(term.get("topologyKey", "")),
            selector=pod_selector(term.get("labelSelector"), tuple(term.get("matchLabelKeys") or ()), pod),
            namespaces=namespaces,
            namespace_selector=raw_selector(term.get("namespaceSelector")),
            labels=self._labels,
            weight=weight,
        )


def _group(pod: Pod, which: str, strength: str) -> Iterable[Mapping[str, Any]]:
    return ((pod.spec.affinity or {}).get(which) or {}).get(strength) or ()


Domain = tuple[str, str]  # topology key, value


class AffinityIndex:
    """The terms of one pod, and those of existing pods that concern it, with counts by domain."""

    def __init__(self, pod: Pod, nodes: Mapping[str, NodeState], namespaces: NamespaceLabels) -> None:
        terms = self._terms = _Terms(namespaces)
        self._pod, self._nodes = pod, nodes
        self._affinity = terms.required(pod, "podAffinity")
        self._anti = terms.required(pod, "podAntiAffinity")
        self._near: list[Counter[Domain]] = [Counter() for _ in self._affinity]
        self._away: list[Counter[Domain]] = [Counter() for _ in self._anti]
        self._forbidden: set[Domain] = set()
        self._matches_itself = all(term.matches(pod) for term in self._affinity)
        own = bool(self._affinity or self._anti)
        for state in nodes.values():
            if state.node is None:
                continue
            for other in state.related.values():
                self._count_existing(pod, other.pod, state.node)
            if own:
                for other in state.pods.values():
                    self._count_own(other.pod, state.node)

    @property
    def has_preferences(self) -> bool:
        return bool(self._wanted)

    @cached_property
    def _wanted(self) -> Counter[Domain]:
        """The sums of weights by domain: of the pod's preferences, and of those that existing pods have about it."""
        pod, own = self._pod, self._preferred(self._pod)
        wanted: Counter[Domain] = Counter()
        for state in self._nodes.values():
            labels = state.node.metadata.labels if state.node is not None else {}
            for other in state.pods.values() if own else ():
                wanted.update(_weights(own, other.pod, labels))
            for other in state.related.values():
                terms = [
                    *self._terms.required(other.pod, "podAffinity", _REQUIRED_WEIGHT),
                    *self._preferred(other.pod),
                ]
                wanted.update(_weights(terms, pod, labels))
        return wanted

    def _preferred(self, pod: Pod) -> list[_Term]:
        terms = self._terms
        return [*terms.preferred(pod, "podAffinity", 1), *terms.preferred(pod, "podAntiAffinity", -1)]

    def _count_existing(self, pod: Pod, other: Pod, node: Node) -> None:
        for term in self._terms.required(other, "podAntiAffinity"):
            if term.matches(pod) and term.key in node.metadata.labels:
                self._forbidden.add((term.key, node.metadata.labels[term.key]))

    def _count_own(self, other: Pod, node: Node) -> None:
        labels = node.metadata.labels
        # Affinity needs one pod that matches all terms; anti-affinity forbids every pod that matches any.
        if self._affinity and all(term.matches(other) for term in self._affinity):
            for term, counts in zip(self._affinity, self._near, strict=True):
                if term.key in labels:
                    counts[term.key, labels[term.key]] += 1
        for term, counts in zip(self._anti, self._away, strict=True):
            if term.key in labels and term.matches(other):
                counts[term.key, labels[term.key]] += 1

    def affinity_holds(self, node: Node) -> bool:
        """Whether every required affinity term has a matching pod in the domain of `node`."""
        if not self._affinity:
            return True
        domains = [_domain(term, node) for term in self._affinity]
        if None in domains:
            return False
        if all(counts[domain] for domain, counts in zip(_known(domains), self._near, strict=True)):
            return True
        # The first pod of a group with affinity to itself fits everywhere.
        return self._matches_itself and not any(self._near)

    def anti_affinity_holds(self, node: Node) -> bool:
        """Whether no required anti-affinity term has a matching pod in the domain of `node`."""
        return not any(
            domain is not None and counts[domain]
            for domain, counts in zip((_domain(term, node) for term in self._anti), self._away, strict=True)
        )

    def existing_agree(self, node: Node) -> bool:
        """Whether no existing pod in the domain of `node` has anti-affinity to this pod."""
        return not any(item in self._forbidden for item in node.metadata.labels.items())

    def preference(self, node: Node) -> int:
        """Return the sum of the weights of preferences near `node`; those for anti-affinity are negative."""
        return sum(self._wanted[item] for item in node.metadata.labels.items())


def _weights(terms: Iterable[_Term], pod: Pod, labels: Mapping[str, str]) -> Counter[Domain]:
    """Return the weights of the terms that match a pod, in the domains of a node with these labels."""
    weights: Counter[Domain] = Counter()
    for term in terms:
        if term.key in labels and term.matches(pod):
            weights[term.key, labels[term.key]] += term.weight
    return weights


def _domain(term: _Term, node: Node) -> Domain | None:
    value = node.metadata.labels.get(term.key)
    return None if value is None else (term.key, value)


def _known(domains: Iterable[Domain | None]) -> list[Domain]:
    return [domain for domain in domains if domain is not None]

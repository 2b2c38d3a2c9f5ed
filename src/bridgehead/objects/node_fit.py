"""Whether a pod may run on a node by the node's taints, labels and name.

Used by the scheduler, other controllers and the kubelet. Pure: no I/O, no clock, no randomness.
Source: Kubernetes "Taints and Tolerations", "Assigning Pods to Nodes", `k8s.io/component-helpers/scheduling/corev1`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .core import Node, PodSpec, Taint, Toleration
from .node_selectors import matches_term

# The field names of required and preferred affinity.
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration covers a taint. An empty effect covers every effect; an empty key with Exists all taints."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.operator in ("", "Equal") and toleration.value == taint.value


def untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration], effects: Iterable[str]) -> list[Taint]:
    """Return the taints with one of `effects` that no toleration covers."""
    wanted = frozenset(effects)
    return [
        taint
        for taint in taints
        if taint.effect in wanted and not any(tolerates(toleration, taint) for toleration in tolerations)
    ]


def _node_affinity(spec: PodSpec) -> Mapping[str, Any]:
    return (spec.affinity or {}).get("nodeAffinity") or {}


def _required_terms(spec: PodSpec) -> Sequence[Mapping[str, Any]] | None:
    required = _node_affinity(spec).get(REQUIRED)
    return None if required is None else required.get("nodeSelectorTerms") or ()


def matches_node_affinity(spec: PodSpec, node: Node) -> bool:
    """Whether `node` has the labels of `nodeSelector` and matches one of the required affinity terms, if any."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    terms = _required_terms(spec)
    return terms is None or any(matches_term(term, node) for term in terms)


def required_node_names(spec: PodSpec) -> frozenset[str] | None:
    """Return the nodes to which required affinity by name limits the pod (as for DaemonSets); None without such."""
    terms = _required_terms(spec)
    if not terms:
        return None
    names: set[str] = set()
    for term in terms:
        of_term: frozenset[str] | None = None
        for expression in term.get("matchFields") or ():
            if expression.get("key") == "metadata.name" and expression.get("operator") == "In":
                values = frozenset(map(str, expression.get("values") or ()))
                of_term = values if of_term is None else of_term & values
        if of_term is None:
            return None
        names |= of_term
    return frozenset(names)


def preference(spec: PodSpec, node: Node) -> int:
    """Return the sum of the weights of the preferred affinity terms that `node` matches."""
    preferred = _node_affinity(spec).get(PREFERRED) or ()
    return sum(int(term.get("weight", 0)) for term in preferred if matches_term(term.get("preference") or {}, node))

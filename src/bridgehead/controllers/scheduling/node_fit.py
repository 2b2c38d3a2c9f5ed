"""Whether a pod may run on a node by what the node is: taints, labels, name. Pure.

Called by `placement`, `daemon_plan` and `tolerance`.
Source: Kubernetes "Taints and Tolerations", "Assigning Pods to Nodes", `k8s.io/component-helpers/scheduling/corev1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bridgehead.objects.core import Node, PodSpec, Taint, Toleration
from bridgehead.objects.selectors import Requirement

# The two strengths of every affinity, as the fields are called.
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!", "Gt": "gt", "Lt": "lt"}


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An empty effect tolerates every effect; an empty key with Exists every taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.operator in ("", "Equal") and toleration.value == taint.value


def untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration], effects: Iterable[str]) -> list[Taint]:
    """The taints with one of `effects` that no toleration covers."""
    wanted = frozenset(effects)
    return [
        taint
        for taint in taints
        if taint.effect in wanted and not any(tolerates(toleration, taint) for toleration in tolerations)
    ]


def _requirement_holds(expression: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    """One term of a node selector. What validation refuses (an unknown operator, Gt of a word) holds nowhere."""
    operator = _OPERATORS.get(str(expression.get("operator")))
    if operator is None:
        return False
    operands = frozenset(str(value) for value in expression.get("values") or ())
    if operator in ("gt", "lt") and (len(operands) != 1 or not re.fullmatch(r"-?[0-9]+", next(iter(operands)))):
        return False
    return Requirement(str(expression.get("key", "")), operator, operands).matches(values)


def matches_term(term: Mapping[str, Any], node: Node) -> bool:
    """A `NodeSelectorTerm`: all expressions on labels and all on fields hold; an empty term matches nothing."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    name = {"metadata.name": node.metadata.name}
    return all(_requirement_holds(e, node.metadata.labels) for e in expressions) and all(
        _requirement_holds(f, name) for f in fields
    )


def _node_affinity(spec: PodSpec) -> Mapping[str, Any]:
    return (spec.affinity or {}).get("nodeAffinity") or {}


def _required_terms(spec: PodSpec) -> Sequence[Mapping[str, Any]] | None:
    required = _node_affinity(spec).get(REQUIRED)
    return None if required is None else required.get("nodeSelectorTerms") or ()


def matches_node_affinity(spec: PodSpec, node: Node) -> bool:
    """Whether `node` has the labels of `nodeSelector` and satisfies a required affinity term, if there are any."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    terms = _required_terms(spec)
    return terms is None or any(matches_term(term, node) for term in terms)


def required_node_names(spec: PodSpec) -> frozenset[str] | None:
    """The only nodes that the required affinity names (as a DaemonSet's pods do); None when it isn't about names."""
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
    """The sum of the weights of the preferred affinity terms that `node` matches."""
    preferred = _node_affinity(spec).get(PREFERRED) or ()
    return sum(int(term.get("weight", 0)) for term in preferred if matches_term(term.get("preference") or {}, node))

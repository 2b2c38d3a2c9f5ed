"""Node selectors, by which pods and volumes choose nodes.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `k8s.io/component-helpers/scheduling/corev1/nodeaffinity`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .core import Node
from .selectors import Requirement

_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!", "Gt": "gt", "Lt": "lt"}


def _requirement_holds(expression: Mapping[str, Any], values: Mapping[str, str]) -> bool:
    """Whether a node selector requirement holds. An invalid one (unknown operator, Gt with text) never holds."""
    operator = _OPERATORS.get(str(expression.get("operator")))
    if operator is None:
        return False
    operands = frozenset(str(value) for value in expression.get("values") or ())
    if operator in ("gt", "lt") and (len(operands) != 1 or not re.fullmatch(r"-?[0-9]+", next(iter(operands)))):
        return False
    return Requirement(str(expression.get("key", "")), operator, operands).matches(values)


def matches_term(term: Mapping[str, Any], node: Node) -> bool:
    """Whether all label and field expressions of a `NodeSelectorTerm` hold. An empty term matches no node."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    name = {"metadata.name": node.metadata.name}
    return all(_requirement_holds(e, node.metadata.labels) for e in expressions) and all(
        _requirement_holds(f, name) for f in fields
    )


def matches_selector(selector: Mapping[str, Any] | None, node: Node) -> bool:
    """Whether one of the terms of a `NodeSelector` matches; None matches every node."""
    return selector is None or any(matches_term(term, node) for term in selector.get("nodeSelectorTerms") or ())

"""Selectors and lists of MetalLB's objects: compiled, and refused if they repeat themselves.

Pure: no I/O, no clock, no randomness. Source: MetalLB, internal/config.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridgehead.balancer.compiled_configuration import NodeSelection
from bridgehead.objects.meta import LabelSelector
from bridgehead.objects.selectors import Selector, compile_selector

from .inputs import NodeFacts


def quote(text: object) -> str:
    """Quote text as Go's %q does."""
    return '"' + str(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def check_unique(values: Sequence[str], what: str) -> None:
    """Raise ValueError if a value occurs twice."""
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"duplicate definition of {what} {quote(value)}")
        seen.add(value)


def compile_selectors(selectors: Sequence[LabelSelector], what: str) -> tuple[Selector, ...]:
    """Compile the selectors of the field `what`. Raises ValueError for an invalid or repeated one."""
    compiled: list[Selector] = []
    for selector in selectors:
        _check(selector)
        found = compile_selector(selector)
        if found in compiled:
            raise ValueError(f"duplicate definition of {what} {quote(_text(selector))}")
        compiled.append(found)
    return tuple(compiled)


def share_nodes(one: NodeSelection, other: NodeSelection, nodes: Mapping[str, NodeFacts]) -> bool:
    """Whether both select a node, of those that exist; they do without any if neither has a selector."""
    if not one.selectors and not other.selectors:
        return True
    return any(one.matches(facts.labels) and other.matches(facts.labels) for facts in nodes.values())


def _check(selector: LabelSelector) -> None:
    seen = set()
    for expression in selector.match_expressions:
        check_unique(expression.values, "match expression value in label selector")
        if expression.operator in ("In", "NotIn") and not expression.values:
            raise ValueError("for 'in', 'notin' operators, values set can't be empty")
        if expression.operator in ("Exists", "DoesNotExist") and expression.values:
            raise ValueError("values set must be empty for exists and does not exist")
        identity = (expression.key, expression.operator, frozenset(expression.values))
        if identity in seen:
            raise ValueError(f"duplicate definition of match expressions {quote(expression.key)}")
        seen.add(identity)


def _text(selector: LabelSelector) -> str:
    labels = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())]
    expressions = [f"{e.key} {e.operator} ({','.join(e.values)})" for e in selector.match_expressions]
    return ",".join(labels + expressions)

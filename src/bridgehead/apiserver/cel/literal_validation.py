"""Checks after type checking: constant patterns, times, durations and formats; lists and maps of several types.

Pure: no I/O, no clock, no randomness. Source: cel-go `cel/validator.go`, `ext/formatting.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .errors import CompileError, EvaluationError, Issue
from .library.formatting import check_format
from .library.regex import compile_pattern
from .library.times import check_timestamp, parse_duration, parse_timestamp
from .syntax_tree import Call, ListLiteral, Literal, MapLiteral, Node
from .types import Type
from .values import SECOND


def _timestamp(value: Any) -> None:
    if isinstance(value, str):
        parse_timestamp(value)
    elif type(value) is int:
        check_timestamp(value * SECOND)


_CHECKS: Mapping[str, Callable[[Any], object]] = {
    "duration": parse_duration,
    "timestamp": _timestamp,
    "matches": compile_pattern,
}


def check_literals(expression: str, nodes: Iterable[Node]) -> None:
    """Raise CompileError for constants that make a call fail whatever its other arguments are."""
    nodes = list(nodes)
    exempt = _exempt(nodes)
    issues = [issue for node in nodes if id(node) not in exempt for issue in _mixed(node)]
    for node in nodes:
        if isinstance(node, Call) and node.function == "format":
            issues += _format(node)
        if not isinstance(node, Call) or node.function not in _CHECKS or not node.args:
            continue
        argument = node.args[-1]
        if isinstance(argument, Literal) and (node.function == "timestamp" or isinstance(argument.value, str)):
            try:
                _CHECKS[node.function](argument.value)
            except EvaluationError:
                issues.append(Issue(argument.offset, f"invalid {node.function} argument"))
    if issues:
        raise CompileError(expression, issues)


def _format(node: Call) -> list[Issue]:
    """Check a call of `format` with a constant text and a list."""
    text, arguments = node.target, node.args[-1]
    if not isinstance(text, Literal) or not isinstance(arguments, ListLiteral):
        return []
    problem = check_format(text.value, arguments.items)
    if problem is None:
        return []
    argument, message = problem
    return [Issue((argument or node).offset, message)]


def _exempt(nodes: Iterable[Node]) -> set[int]:
    """Return the ids of lists and maps that are arguments of `format`, whose elements may differ."""
    found: set[int] = set()
    waiting = [one for node in nodes if isinstance(node, Call) and node.function == "format" for one in node.operands]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ListLiteral):
            waiting += node.items
        elif isinstance(node, MapLiteral):
            waiting += [one for entry in node.entries for one in entry]
        else:
            continue
        found.add(id(node))
    return found


def _mixed(node: Node) -> list[Issue]:
    if isinstance(node, ListLiteral):
        return _first_different(node.items, node.optionals)
    if isinstance(node, MapLiteral):
        keys, values = [key for key, _ in node.entries], [value for _, value in node.entries]
        return _first_different(keys, frozenset()) + _first_different(values, node.optionals)
    return []


def _first_different(items: Sequence[Node], optionals: frozenset[int]) -> list[Issue]:
    first: Type | None = None
    for index, item in enumerate(items):
        found = item.type.parameters[0] if index in optionals and item.type.parameters else item.type
        if first is None:
            first = found
        elif found != first:
            return [Issue(item.offset, f"expected type '{first}' but found '{found}'")]
    return []

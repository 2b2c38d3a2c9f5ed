"""Macros: calls that bind variables or test for presence.

Pure: no I/O, no clock, no randomness. Source: cel-go `parser/macro.go`, `ext/comprehensions.go`, `ext/lists.go`,
`ext/bindings.go`, `cel/library.go`.
"""

from __future__ import annotations

from .errors import Issue
from .syntax_tree import (
    Bind,
    Call,
    Comprehension,
    Ident,
    Literal,
    MapLiteral,
    Node,
    OptionalMap,
    Select,
    StructLiteral,
)

# Kind of comprehension, number of variables, and whether it has a condition and a result, by name and number of
# arguments.
_COMPREHENSIONS = {
    ("all", 2): ("all", 1, True, False),
    ("exists", 2): ("exists", 1, True, False),
    ("exists_one", 2): ("exists_one", 1, True, False),
    ("existsOne", 2): ("exists_one", 1, True, False),
    ("filter", 2): ("filter", 1, True, False),
    ("map", 2): ("map", 1, False, True),
    ("map", 3): ("map", 1, True, True),
    ("all", 3): ("all", 2, True, False),
    ("exists", 3): ("exists", 2, True, False),
    ("exists_one", 3): ("exists_one", 2, True, False),
    ("existsOne", 3): ("exists_one", 2, True, False),
    ("transformList", 3): ("transform_list", 2, False, True),
    ("transformList", 4): ("transform_list", 2, True, True),
    ("transformMap", 3): ("transform_map", 2, False, True),
    ("transformMap", 4): ("transform_map", 2, True, True),
    ("transformMapEntry", 3): ("transform_entry", 2, False, True),
    ("transformMapEntry", 4): ("transform_entry", 2, True, True),
    ("sortBy", 2): ("sort_by", 1, False, True),
}
_OPTIONAL = {"optMap": False, "optFlatMap": True}


def expand_macro(call: Call, issues: list[Issue], *, has_bind: bool) -> Node:
    """Return the node of a macro, or the call itself if it is none. Appends errors to `issues`.

    `has_bind`: `cel.bind` is a macro.
    """
    if call.target is None:
        if call.function != "has" or len(call.args) != 1:
            return call
        operand = call.args[0]
        if not isinstance(operand, Select) or operand.is_optional:
            issues.append(Issue(operand.offset, "invalid argument to has() macro"))
            return call
        return Select(call.offset, operand.operand, operand.name, is_test=True)
    if call.function in _OPTIONAL and len(call.args) == 2:
        name = _variable(call.args[0], issues, f"{call.function}() variable name must be a simple identifier")
        return OptionalMap(call.offset, call.target, name, call.args[1], _OPTIONAL[call.function])
    if has_bind and call.function == "bind" and len(call.args) == 3 and _is_name(call.target, "cel"):
        name = _variable(call.args[0], issues, "cel.bind() variable names must be simple identifiers")
        return Bind(call.offset, name, call.args[1], call.args[2])
    shape = _COMPREHENSIONS.get((call.function, len(call.args)))
    if shape is None:
        return call
    kind, count, has_condition, has_result = shape
    problem = "argument must be a simple name" if count == 1 else "argument must be an identifier"
    if kind in ("map", "filter", "sort_by"):
        problem = "argument is not an identifier"
    if kind == "sort_by" and isinstance(call.target, Literal | MapLiteral | StructLiteral):
        problem = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        issues.append(Issue(call.target.offset, problem))
        return call
    names = [_variable(node, issues, problem) for node in call.args[:count]]
    if count == 2 and names[0] == names[1]:
        issues.append(Issue(call.args[1].offset, f"duplicate variable name: {names[1]}"))
    rest = call.args[count:]
    return Comprehension(
        call.offset,
        kind,
        call.target,
        names[0],
        names[1] if count == 2 else "",
        rest[0] if has_condition else None,
        rest[-1] if has_result else None,
    )


def _is_name(node: Node, name: str) -> bool:
    return isinstance(node, Ident) and node.name == name


def _variable(node: Node, issues: list[Issue], problem: str) -> str:
    if isinstance(node, Ident):
        return node.name
    issues.append(Issue(node.offset, problem))
    return "_"

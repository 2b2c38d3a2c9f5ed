"""The syntax tree of an expression.

The parser makes the nodes; the checker sets `type`, and what a call or a name refers to. `offset` is the position that
errors name, in characters. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .types import DYN, Type

if TYPE_CHECKING:
    from .declarations import Overload


@dataclass(slots=True, eq=False)
class Node:
    offset: int
    type: Type = field(default=DYN, init=False)


@dataclass(slots=True, eq=False)
class Literal(Node):
    """A constant. `value` is its CEL value (see `values`)."""

    value: Any
    literal_type: Type


@dataclass(slots=True, eq=False)
class Ident(Node):
    """A name. A type's name becomes `constant` in the checker; `is_local` is set for variables of macros."""

    name: str
    constant: Type | None = field(default=None, init=False)
    is_local: bool = field(default=False, init=False)


@dataclass(slots=True, eq=False)
class Select(Node):
    """`operand.name`; `has(operand.name)` if `is_test`, `operand.?name` if `is_optional`."""

    operand: Node
    name: str
    is_test: bool = False
    is_optional: bool = False
    # The variable or type whose qualified name the whole selection is.
    qualified: str = field(default="", init=False)
    constant: Type | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Call(Node):
    """A call of a function, a method (`target`) or an operator (`function` such as `_+_`).

    The checker sets `overloads`, the candidates for the argument types, and puts the qualified name of a namespaced
    function (`sets.contains`) into `function`, with `target` None.
    """

    function: str
    target: Node | None
    args: list[Node]
    overloads: list[Overload] = field(default_factory=list, init=False)

    @property
    def operands(self) -> list[Node]:
        """The target, if there is one, and the arguments."""
        return self.args if self.target is None else [self.target, *self.args]


@dataclass(slots=True, eq=False)
class ListLiteral(Node):
    """A list; `optionals` are the indexes of elements such as `?x`."""

    items: list[Node]
    optionals: frozenset[int]


@dataclass(slots=True, eq=False)
class MapLiteral(Node):
    """A map: pairs of key and value; `optionals` are the indexes of entries such as `?"key": x`."""

    entries: list[tuple[Node, Node]]
    optionals: frozenset[int]


@dataclass(slots=True, eq=False)
class StructLiteral(Node):
    """A message: `name{field: value}`."""

    name: str
    entries: list[tuple[str, Node, int]]  # name, value, offset
    optionals: frozenset[int]


@dataclass(slots=True, eq=False)
class Comprehension(Node):
    """A macro over a list or map.

    `kind` is one of all, exists, exists_one, filter, map, transform_list, transform_map, transform_entry, sort_by.
    `second` is the second variable of a macro with two, else "". `condition` is the predicate; None: all elements.
    `result` is what map and transform macros make of an element, and the key by which sort_by orders it.
    """

    kind: str
    source: Node
    variable: str
    second: str
    condition: Node | None
    result: Node | None


@dataclass(slots=True, eq=False)
class OptionalMap(Node):
    """`source.optMap(variable, result)`, or `optFlatMap` if `is_flat`."""

    source: Node
    variable: str
    result: Node
    is_flat: bool


@dataclass(slots=True, eq=False)
class Bind(Node):
    """`cel.bind(variable, value, result)`. The value is computed when the result reads the variable first."""

    variable: str
    value: Node
    result: Node

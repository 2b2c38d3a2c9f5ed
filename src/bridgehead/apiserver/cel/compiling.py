"""The compiler: a checked syntax tree to Python closures.

Each node becomes a function of a Frame, which returns the node's value or raises EvaluationError, and adds the node's
cost. Costs of a straight line of operations are added without a check, since its length is bounded by the expression's;
loops and calls whose cost depends on data check the limit. As in cel-go, conversions of constants, and lists and maps
of constants, are constants themselves, which cost nothing.

Pure: no I/O, no clock, no randomness. Source: cel-go `interpreter/planner.go`, `interpreter/runtimecost.go`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from .calls import compile_overloads
from .comprehensions import Loop, make_loop
from .errors import EvaluationError
from .library.regex import compile_pattern
from .steps import (
    Step,
    binding,
    bound,
    conditional,
    constant,
    local,
    logical,
    optional_field,
    path,
    presence,
    variable,
)
from .syntax_tree import (
    Bind,
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    OptionalMap,
    Select,
    StructLiteral,
)
from .values import NONE, Frame, Optional, cel_type

# Costs of making values. Source: cel-go `common/cost.go`.
LIST_COST, MAP_COST, STRUCT_COST = 10, 30, 40

# Functions whose result is a constant if their only argument is one. Source: cel-go `IsTypeConversionFunction`.
_CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"})
_SEARCHES = frozenset({"matches", "find", "findAll"})
# The limit of the cost of one conversion. An expression is too short for one that would cost more.
_MOST_FOLDING = 1_000_000

# Makes the value of a message from its type's name and its fields.
MakeStruct = Callable[[str, dict[str, Any]], Any]


class Compiler:
    """Compiles one expression. After `compile`, `locals_count` is the size of a frame's list of local variables.

    Raises EvaluationError for a conversion or a pattern that cannot succeed.
    """

    def __init__(self, make_struct: MakeStruct) -> None:
        self._make_struct = make_struct
        # Reads of the local variables, by name: of the outer ones first.
        self._locals: dict[str, list[Step]] = {}
        self._used = 0
        self.locals_count = 0
        # The values of constant nodes.
        self._constants: dict[int, Any] = {}

    def compile(self, node: Node) -> Step:
        match node:
            case Literal():
                return self._constant(node, node.value)
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case StructLiteral():
                return self._struct(node)
            case Comprehension():
                return self._comprehension(node)
            case OptionalMap():
                return self._optional_map(node)
            case Bind():
                return self._bind(node)
        raise TypeError(f"unknown node {node!r}")

    def _constant(self, node: Node, value: Any) -> Step:
        self._constants[id(node)] = value
        return constant(value)

    def _are_constant(self, nodes: Iterable[Node]) -> bool:
        return all(id(node) in self._constants for node in nodes)

    # --- Names and fields -------------------------------------------------------------------------------------------

    def _ident(self, node: Ident) -> Step:
        if node.constant is not None:
            return self._constant(node, node.constant)
        if node.is_local:
            return self._locals[node.name][-1]
        return variable(node.name, node.type)

    def _select(self, node: Select) -> Step:
        if node.constant is not None:
            return self._constant(node, node.constant)
        if node.qualified:
            return variable(node.qualified, node.type)
        if node.is_test:
            return presence(self.compile(node.operand), _json_name(node), in_struct=_is_in_struct(node))
        if node.is_optional or node.operand.type.kind == "optional":
            operand = self.compile(node.operand)
            return optional_field(operand, _json_name(node), _decoder(node), in_struct=_is_in_struct(node))
        names: list[str] = []
        in_structs: list[bool] = []
        root: Node = node
        while (
            isinstance(root, Select)
            and not (root.is_test or root.is_optional or root.qualified or root.constant)
            and root.operand.type.kind != "optional"
            and (root is node or _decoder(root) is None)
        ):
            names.append(_json_name(root))
            in_structs.append(_is_in_struct(root))
            root = root.operand
        return path(self.compile(root), tuple(names[::-1]), _decoder(node), tuple(in_structs[::-1]))

    # --- Calls ------------------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> Step:
        steps = [self.compile(one) for one in node.operands]
        match node.function:
            case "_&&_":
                return logical(steps, decisive=False)
            case "_||_":
                return logical(steps, decisive=True)
            case "_?_:_":
                return conditional(*steps)
        step = compile_overloads(node, steps)
        if node.function in _CONVERSIONS and len(steps) == 1 and self._are_constant(node.operands):
            return self._constant(node, step(Frame({}, 0, _MOST_FOLDING)))
        if node.function in _SEARCHES and len(steps) > 1:
            pattern = self._constants.get(id(node.operands[1]))
            if isinstance(pattern, str):
                compile_pattern(pattern)
        return step

    # --- Aggregates -------------------------------------------------------------------------------------------------

    def _list(self, node: ListLiteral) -> Step:
        steps = [self.compile(one) for one in node.items]
        optionals = node.optionals
        if not optionals and self._are_constant(node.items):
            return self._constant(node, [self._constants[id(one)] for one in node.items])

        def make(frame: Frame) -> Any:
            frame.cost += LIST_COST
            made = []
            for index, step in enumerate(steps):
                value = step(frame)
                if index in optionals:
                    if not _is_present(value):
                        continue
                    value = value.value
                made.append(value)
            return made

        return make

    def _map(self, node: MapLiteral) -> Step:
        steps = [(self.compile(key), self.compile(value)) for key, value in node.entries]
        optionals = node.optionals
        if not optionals and self._are_constant([one for entry in node.entries for one in entry]):
            with contextlib.suppress(EvaluationError):
                made: dict[Any, Any] = {}
                for key, value in node.entries:
                    insert(made, self._constants[id(key)], self._constants[id(value)])
                return self._constant(node, made)

        def make(frame: Frame) -> Any:
            frame.cost += MAP_COST if steps else 0
            made: dict[Any, Any] = {}
            for index, (key_step, value_step) in enumerate(steps):
                key, value = key_step(frame), value_step(frame)
                if index in optionals:
                    if not _is_present(value):
                        continue
                    value = value.value
                insert(made, key, value)
            return made

        return make

    def _struct(self, node: StructLiteral) -> Step:
        steps = [(name, self.compile(value)) for name, value, _ in node.entries]
        optionals, name, make_struct = node.optionals, node.name, self._make_struct

        def make(frame: Frame) -> Any:
            frame.cost += STRUCT_COST
            fields: dict[str, Any] = {}
            for index, (field, step) in enumerate(steps):
                value = step(frame)
                if index in optionals:
                    if not _is_present(value):
                        continue
                    value = value.value
                fields[field] = value
            return make_struct(name, fields)

        return make

    # --- Macros -----------------------------------------------------------------------------------------------------

    def _declare(self, name: str, read: Callable[[int], Step] = local) -> int:
        """Return the slot of a new local variable. `read` makes the step that reads it."""
        slot = self._used
        self._used += 1
        self.locals_count = max(self.locals_count, self._used)
        self._locals.setdefault(name, []).append(read(slot))
        return slot

    def _release(self, name: str) -> None:
        self._locals[name].pop()
        self._used -= 1

    def _comprehension(self, node: Comprehension) -> Step:
        source = self.compile(node.source)
        first = self._declare(node.variable)
        second = self._declare(node.second) if node.second else None
        condition = None if node.condition is None else self.compile(node.condition)
        result = None if node.result is None else self.compile(node.result)
        if node.second:
            self._release(node.second)
        self._release(node.variable)
        return make_loop(Loop(node.kind, source, first, second, condition, result))

    def _optional_map(self, node: OptionalMap) -> Step:
        source = self.compile(node.source)
        slot = self._declare(node.variable)
        result = self.compile(node.result)
        self._release(node.variable)
        is_flat = node.is_flat

        def run(frame: Frame) -> Any:
            before = frame.cost
            held = source(frame)
            spent = frame.cost - before
            frame.cost += 1
            if type(held) is not Optional:
                raise EvaluationError("no such overload")
            if not held.is_present:
                return NONE
            # As in cel-go, the macro has its source twice.
            frame.charge(spent + 1)
            frame.locals[slot] = held.value
            made = result(frame)
            if is_flat:
                return made
            frame.cost += 1
            return Optional(made)

        return run

    def _bind(self, node: Bind) -> Step:
        value = self.compile(node.value)
        # The value is computed amid the result, whose variables have other slots than those of the value.
        before, self._used = self._used, self.locals_count
        slot = self._declare(node.variable, lambda slot: bound(slot, value))
        result = self.compile(node.result)
        self._release(node.variable)
        self._used = before
        return binding(slot, result)


def _is_in_struct(node: Select) -> bool:
    """Whether a field is one of an object with properties, in which a null is as good as none."""
    owner = node.operand.type
    return (owner.parameters[0] if owner.kind == "optional" else owner).kind == "struct"


def _is_present(value: Any) -> bool:
    """Whether an optional element has a value. Raises EvaluationError for a value that is not optional."""
    if type(value) is Optional:
        return value.is_present
    raise EvaluationError(f"cannot initialize optional entry from non-optional value {cel_type(value)}")


def insert(made: dict[Any, Any], key: Any, value: Any) -> None:
    """Add an entry to a new map. Raises EvaluationError for a second one with its key, or for an invalid key."""
    if cel_type(key).kind not in ("string", "int", "uint", "bool"):
        raise EvaluationError(f"unsupported key type: {cel_type(key)}")
    if key in made:
        raise EvaluationError(f"insert failed: key {key} already exists")
    made[key] = value


def _decoder(node: Node) -> Callable[[Any], Any] | None:
    """Return what makes the CEL value of a field's JSON value; None if they are the same."""
    return node.type.decode if isinstance(node, Select) and node.operand.type.kind != "dyn" else None


def _json_name(node: Select) -> str:
    target = node.operand.type
    if target.kind == "optional":
        target = target.parameters[0]
    field = target.fields.get(node.name) if target.kind == "struct" else None
    return node.name if field is None else field.json_name

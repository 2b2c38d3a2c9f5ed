"""Estimates of what an expression costs at most, from the sizes that its types allow.

Pure: no I/O, no clock, no randomness. Source: cel-go `checker/cost.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .comprehensions import ROUND_COSTS
from .costs import ONE, SELF_COMPARISON, SORT_BY_OVERHEAD, UNKNOWN, Operand, Range, exactly
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
from .types import UNBOUNDED, Type
from .values import size_of

_LIST, _MAP, _STRUCT = exactly(10), exactly(30), exactly(40)
_NO_COST = exactly(0)
_SIZED = frozenset({"string", "bytes", "list", "map", "type", "dyn", "any"})


def estimate_cost(root: Node, variables: Mapping[str, Type]) -> Range:
    """Return the least and the most that the evaluation of a checked expression costs."""
    return _Estimator(variables).cost(root)


# A variable, or "" for the result of a call; names of fields; `@items`, `@values` and `@keys` for elements and keys.
Path = tuple[str, ...]


class _Local(NamedTuple):
    """A local variable's size, and that of its elements, as far as the expression determines them."""

    size: Range | None = None
    item_size: Range | None = None
    path: Path = ()


class _Estimator:
    def __init__(self, variables: Mapping[str, Type]) -> None:
        self._variables = variables
        self._paths: dict[int, Path] = {}
        # Sizes of nodes, and of the elements of nodes that are lists, as far as the expression itself determines them.
        self._sizes: dict[int, Range] = {}
        self._item_sizes: dict[int, Range] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> Range:
        match node:
            case Literal():
                return _NO_COST
            case Ident():
                local = self._local(node)
                self._paths[id(node)] = (node.name,) if local is None else local.path
                return ONE
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                cost = self._sum(node.items).plus(_LIST)
                self._item_sizes[id(node)] = self._union(node.items)
                self._sizes[id(node)] = exactly(len(node.items))
                return cost
            case MapLiteral():
                cost = self._sum([one for entry in node.entries for one in entry]).plus(_MAP)
                self._item_sizes[id(node)] = self._union([value for _, value in node.entries])
                self._sizes[id(node)] = exactly(len(node.entries))
                return cost
            case StructLiteral():
                return self._sum([value for _, value, _ in node.entries]).plus(_STRUCT)
            case Comprehension():
                return self._comprehension(node)
            case OptionalMap():
                return self._optional_map(node)
            case Bind():
                return self._bind(node)
        return _NO_COST

    def _sum(self, nodes: list[Node]) -> Range:
        total = _NO_COST
        for node in nodes:
            total = total.plus(self.cost(node))
        return total

    def _union(self, nodes: list[Node]) -> Range:
        if not nodes:
            return _NO_COST
        sizes = [self._size(node) for node in nodes]
        return Range(min(size.least for size in sizes), max(size.most for size in sizes))

    # --- Sizes ------------------------------------------------------------------------------------------------------

    def _size(self, node: Node) -> Range:
        known = self._sizes.get(id(node))
        if known is not None:
            return known
        if isinstance(node, Literal):
            return exactly(size_of(node.value))
        local = self._local(node)
        return self._local_size(_Local(path=self._path(node)) if local is None else local, node.type)

    def _local_size(self, local: _Local, type: Type) -> Range:
        declared = self._declared_size(local.path)
        if declared is not None:
            return declared
        return _size_of_kind(type) if local.size is None else local.size

    def _local(self, node: Node) -> _Local | None:
        scopes = self._locals.get(node.name) if isinstance(node, Ident) else None
        return scopes[-1] if scopes else None

    def _item_size(self, node: Node) -> Range | None:
        known = self._item_sizes.get(id(node))
        if known is not None:
            return known
        if (local := self._local(node)) is not None and local.item_size is not None:
            return local.item_size
        if node.type.kind not in ("list", "map"):
            return None
        path = self._path(node)
        declared = self._declared_size((*path, _item_step(node.type))) if path else None
        return _size_of_kind(node.type.parameters[-1]) if declared is None else declared

    def _path(self, node: Node) -> Path:
        """Return how a value is reached by fields and indexes: from a variable, or from what a call returns."""
        local = self._local(node)
        return self._paths.get(id(node), ()) if local is None else local.path

    def _declared_size(self, path: Path) -> Range | None:
        """Return the size that the type of a variable declares for a part of it; None if it declares none."""
        if not path:
            return None
        # As in Kubernetes, what is reached from the result of a call takes the sizes of a custom resource's `self`.
        found = self._variables.get(path[0], self._variables.get("self"))
        for name in path[1:]:
            found = None if found is None else _part(found, name)
        return None if found is None or found.most == UNBOUNDED else Range(0, found.most)

    def _operand(self, node: Node) -> Operand:
        is_list = node.type.kind == "list"
        has_texts = is_list and node.type.parameters[0].kind in ("string", "bytes")
        number = max(node.value, 0) if isinstance(node, Literal) and type(node.value) is int else None
        return Operand(self._size(node), self._item_size(node) if has_texts else None, is_list, number)

    # --- Nodes ------------------------------------------------------------------------------------------------------

    def _select(self, node: Select) -> Range:
        if node.constant is not None or node.qualified:
            self._paths[id(node)] = (node.qualified,)
            return ONE
        cost = self.cost(node.operand)
        if not (node.is_test or node.is_optional):
            self._paths[id(node)] = (*self._path(node.operand), node.name)
        # As in cel-go, fields of values whose type is not known are free.
        is_free = node.is_test or (not node.is_optional and node.operand.type.kind in ("dyn", "any", "optional"))
        return cost if is_free else cost.plus(ONE)

    def _call(self, node: Call) -> Range:
        costs = [self.cost(one) for one in node.operands]
        total = _NO_COST
        for cost in costs:
            total = total.plus(cost)
        if node.function in ("_&&_", "_||_"):
            return Range(costs[0].least, total.most)
        if node.function == "_?_:_":
            _, yes, no = node.args
            self._sizes[id(node)] = self._size(yes).union(self._size(no))
            items = self._item_size(yes), self._item_size(no)
            if items[0] is not None and items[1] is not None:
                self._item_sizes[id(node)] = items[0].union(items[1])
            return costs[0].plus(costs[1].union(costs[2]))
        operands = [self._operand(one) for one in node.operands]
        calls = [candidate.cost.estimate(operands) for candidate in node.overloads]
        if not calls:
            return total
        own = calls[0][0]
        sizes = [size for _, size in calls if size is not None]
        for cost, _ in calls[1:]:
            own = own.union(cost)
        if sizes:
            self._sizes[id(node)] = Range(min(size.least for size in sizes), max(size.most for size in sizes))
        self._track_items(node)
        return total.plus(own)

    def _track_items(self, node: Call) -> None:
        """Record the sizes that a call takes over from its operands."""
        if node.function == "_[_]":
            container = node.operands[0]
            self._paths[id(node)] = (*self._path(container), _item_step(container.type))
            if (size := self._item_sizes.get(id(container))) is not None:
                self._sizes[id(node)] = size
            elif (local := self._local(container)) is not None and local.item_size is not None:
                self._sizes[id(node)] = local.item_size
        elif node.function == "_+_" and node.type.kind == "list":
            one, other = (self._item_size(operand) for operand in node.operands)
            if one is not None and other is not None:
                self._item_sizes[id(node)] = one.union(other)
        elif node.function == "dyn":
            self._sizes[id(node)] = self._size(node.args[0])

    def _with_locals(self, known: dict[str, _Local], node: Node | None) -> Range:
        if node is None:
            return _NO_COST
        for name, local in known.items():
            self._locals.setdefault(name, []).append(local)
        cost = self.cost(node)
        for name in known:
            self._locals[name].pop()
        return cost

    def _optional_map(self, node: OptionalMap) -> Range:
        """Return the cost of `s.hasValue() ? optional.of(cel.bind(x, s.value(), result)) : optional.none()`."""
        source = self.cost(node.source).plus(ONE)
        present = source.plus(self._with_locals({node.variable: _Local()}, node.result)).plus(_LIST)
        return source.plus(ONE.union(present if node.is_flat else present.plus(ONE)))

    def _bind(self, node: Bind) -> Range:
        value = self.cost(node.value)
        local = _Local(self._size(node.value), self._item_size(node.value), self._path(node.value))
        result = self._with_locals({node.variable: local}, node.result)
        if (size := self._sizes.get(id(node.result))) is not None:
            self._sizes[id(node)] = size
        # cel-go expands the macro to a loop over an empty list.
        return value.plus(result).plus(_LIST)

    def _comprehension(self, node: Comprehension) -> Range:
        source = self.cost(node.source)
        count, item = self._size(node.source), self._item_size(node.source)
        is_list = node.source.type.kind == "list"
        path = self._path(node.source)
        element = _Local(item, path=(*path, _item_step(node.source.type)))
        key = _Local(ONE, path=(*path, "@indices")) if is_list else _Local(None, path=(*path, "@keys"))
        known = (
            {node.variable: key, node.second: element} if node.second else {node.variable: element if is_list else key}
        )
        condition = self._with_locals(known, node.condition)
        result = self._with_locals(known, node.result)
        # `item` of the new list: the size of the result is known only while its variables are.
        if node.kind in ("map", "transform_list") and node.result is not None:
            self._item_sizes[id(node)] = self._size_in(known, node.result)
        elif node.kind == "filter":
            self._item_sizes[id(node)] = self._local_size(known[node.variable], node.type.parameters[0])
        self._sizes[id(node)] = count if node.type.kind in ("list", "map") else ONE
        base, accepted, end = ROUND_COSTS[node.kind]
        step = result.plus(exactly(accepted))
        if node.condition is not None and accepted:
            step = Range(0, step.most)
        rounds = count.times(condition.plus(step).plus(exactly(base)))
        start = {"filter": 10, "map": 10, "transform_list": 10, "transform_map": 30, "transform_entry": 30}
        if node.kind == "sort_by" and node.result is not None:
            is_text = node.result.type.kind in ("string", "bytes")
            sorting, size = SELF_COMPARISON.estimate([Operand(count, ONE if is_text else None, is_list=True)])
            self._sizes[id(node)] = count if size is None else size
            # The cost of the keys' sort, and that of the lists with which the variable and the keys start.
            source = source.plus(sorting).plus(exactly(10 + 10 + SORT_BY_OVERHEAD))
        return source.plus(rounds).plus(exactly(end + start.get(node.kind, 0)))

    def _size_in(self, known: dict[str, _Local], node: Node) -> Range:
        for name, local in known.items():
            self._locals.setdefault(name, []).append(local)
        found = self._size(node)
        for name in known:
            self._locals[name].pop()
        return found


def _size_of_kind(type: Type) -> Range:
    """Return the size of a value of which nothing but the kind of its type is known."""
    return UNKNOWN if type.kind in _SIZED else ONE


def _item_step(type: Type) -> str:
    return "@items" if type.kind == "list" else "@values"


def _part(type: Type, name: str) -> Type | None:
    """Return the type of the part that a step of a path names."""
    match name:
        case "@items" | "@values":
            return type.parameters[-1] if type.kind in ("list", "map") else None
        case "@keys":
            return type.parameters[0] if type.kind == "map" else None
    if name in type.fields:
        return type.fields[name].type
    # Fields of maps have no declared size, unless they are attributes of devices.
    return type.parameters[1] if type.kind == "map" and type.parameters[1].kind == "any" else None

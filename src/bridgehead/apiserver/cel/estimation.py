"""Estimates of what an expression costs at most, from the sizes that its types allow.

Pure: no I/O, no clock, no randomness. Source: cel-go `checker/cost.go`.
"""

from __future__ import annotations

from .comprehensions import ROUND_COSTS
from .costs import ONE, SELF_COMPARISON, SORT_BY_OVERHEAD, UNKNOWN, Operand, Range, exactly
from .nodes import (
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
_SCALARS = frozenset({"bool", "int", "uint", "double", "null", "timestamp", "duration", "type"})
_SIZED = frozenset({"string", "bytes", "list", "map", "dyn"})


def estimate_cost(root: Node) -> Range:
    """Return the least and the most that the evaluation of a checked expression costs."""
    return _Estimator().cost(root)


class _Estimator:
    def __init__(self) -> None:
        # Sizes of nodes, and of the elements of nodes that are lists, as far as the expression itself determines them.
        self._sizes: dict[int, Range] = {}
        self._item_sizes: dict[int, Range] = {}
        self._local_sizes: dict[str, list[Range | None]] = {}

    def cost(self, node: Node) -> Range:
        match node:
            case Literal():
                return _NO_COST
            case Ident():
                return _NO_COST if node.constant is not None else ONE
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                self._item_sizes[id(node)] = self._union(node.items)
                self._sizes[id(node)] = exactly(len(node.items))
                return self._sum(node.items).plus(_LIST)
            case MapLiteral():
                values = [value for _, value in node.entries]
                self._item_sizes[id(node)] = self._union(values)
                self._sizes[id(node)] = exactly(len(node.entries))
                return self._sum([one for entry in node.entries for one in entry]).plus(_MAP)
            case StructLiteral():
                return self._sum([value for _, value, _ in node.entries]).plus(_STRUCT)
            case Comprehension():
                return self._comprehension(node)
            case OptionalMap():
                return (
                    self.cost(node.source).plus(exactly(3)).plus(self._with_locals({node.variable: None}, node.result))
                )
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
        if isinstance(node, Ident) and (scopes := self._local_sizes.get(node.name)) and scopes[-1] is not None:
            return scopes[-1]
        return _size_of_type(node.type)

    def _item_size(self, node: Node) -> Range | None:
        known = self._item_sizes.get(id(node))
        if known is not None:
            return known
        return _size_of_type(node.type.parameters[-1]) if node.type.kind in ("list", "map") else None

    def _operand(self, node: Node) -> Operand:
        is_list = node.type.kind == "list"
        has_texts = is_list and node.type.parameters[0].kind in ("string", "bytes")
        number = max(node.value, 0) if isinstance(node, Literal) and type(node.value) is int else None
        return Operand(self._size(node), self._item_size(node) if has_texts else None, is_list, number)

    # --- Nodes ------------------------------------------------------------------------------------------------------

    def _select(self, node: Select) -> Range:
        if node.constant is not None or node.qualified:
            return _NO_COST if node.constant is not None else ONE
        cost = self.cost(node.operand)
        return cost if node.is_test else cost.plus(ONE)

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
        if node.function in ("_[_]", "_[?_]"):
            size = self._item_size(node.operands[0])
            if size is not None:
                self._sizes[id(node)] = size
        elif node.function == "_+_" and node.type.kind == "list":
            one, other = (self._item_size(operand) for operand in node.operands)
            if one is not None and other is not None:
                self._item_sizes[id(node)] = one.union(other)
        elif node.function == "dyn":
            self._sizes[id(node)] = self._size(node.args[0])

    def _with_locals(self, sizes: dict[str, Range | None], node: Node | None) -> Range:
        if node is None:
            return _NO_COST
        for name, size in sizes.items():
            self._local_sizes.setdefault(name, []).append(size)
        cost = self.cost(node)
        for name in sizes:
            self._local_sizes[name].pop()
        return cost

    def _comprehension(self, node: Comprehension) -> Range:
        source = self.cost(node.source)
        count, item = self._size(node.source), self._item_size(node.source)
        is_list = node.source.type.kind == "list"
        key = None if is_list else _key_size(node.source.type)
        sizes = {node.variable: key, node.second: item} if node.second else {node.variable: item if is_list else key}
        condition = self._with_locals(sizes, node.condition)
        result = self._with_locals(sizes, node.result)
        # `item` of the new list: the size of the result is known only while its variables are.
        if node.kind in ("map", "transform_list") and node.result is not None:
            self._item_sizes[id(node)] = self._size_in(sizes, node.result)
        elif node.kind == "filter" and item is not None:
            self._item_sizes[id(node)] = item
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
            # Beside the keys, the lists that the variable and the keys start with.
            source = source.plus(sorting).plus(exactly(10 + 10 + SORT_BY_OVERHEAD))
        return source.plus(rounds).plus(exactly(end + start.get(node.kind, 0)))

    def _size_in(self, sizes: dict[str, Range | None], node: Node) -> Range:
        for name, size in sizes.items():
            self._local_sizes.setdefault(name, []).append(size)
        found = self._size(node)
        for name in sizes:
            self._local_sizes[name].pop()
        return found


def _key_size(type: Type) -> Range | None:
    return _size_of_type(type.parameters[0]) if type.kind == "map" else None


def _size_of_type(type: Type) -> Range:
    if type.kind in _SCALARS and type.most == UNBOUNDED:
        return ONE
    if type.most != UNBOUNDED:
        return Range(0, type.most)
    return UNKNOWN if type.kind in _SIZED else ONE

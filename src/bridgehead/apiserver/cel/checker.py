"""The type checker: resolves names and overloads, and sets each node's type.

Pure: no I/O, no clock, no randomness.
Source: CEL language definition "Gradual type checking", cel-go `checker/checker.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .declarations import Functions, Overload
from .errors import CompileError, Issue
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
from .types import BOOL, COMPARABLE, DYN, ERROR, INT, TYPE_NAMES, Type, list_of, map_of, optional_of, parameter, type_of
from .unification import Substitution, assign, most_general, resolve

_LOGICAL = frozenset({"_&&_", "_||_"})
_UNKNOWN = ("dyn", "any", "param", "error")


class Checker:
    """Checks one expression. `variables` and `structs` (types of messages, by name) are those of the environment."""

    def __init__(
        self,
        expression: str,
        variables: Mapping[str, Type],
        functions: Functions,
        structs: Callable[[str], Type | None],
    ) -> None:
        self._expression = expression
        self._variables = variables
        self._functions = functions
        self._structs = structs
        self._locals: dict[str, list[Type]] = {}
        self._substitution: Substitution = {}
        self._free = 0
        self._issues: list[Issue] = []
        self.nodes: list[Node] = []
        self.references: set[str] = set()

    def check(self, root: Node) -> Type:
        """Set the types of all nodes and return that of the expression. Raises CompileError."""
        try:
            self._visit(root)
        except RecursionError:
            raise CompileError(self._expression, [Issue(None, "expression recursion limit exceeded: 250")]) from None
        if self._issues:
            raise CompileError(self._expression, self._issues)
        for node in self.nodes:
            node.type = resolve(self._substitution, node.type, free_to_dyn=True)
        return root.type

    def _visit(self, node: Node) -> Type:
        match node:
            case Literal():
                found = node.literal_type
            case Ident():
                found = self._ident(node)
            case Select():
                found = self._select(node)
            case Call():
                found = self._call(node)
            case ListLiteral():
                found = self._list(node)
            case MapLiteral():
                found = self._map(node)
            case StructLiteral():
                found = self._struct(node)
            case Comprehension():
                found = self._comprehension(node)
            case OptionalMap():
                found = self._optional_map(node)
            case Bind():
                found = self._in_scope({node.variable: self._visit(node.value)}, node.result)
            case _:
                raise TypeError(f"unknown node {node!r}")
        node.type = found
        self.nodes.append(node)
        return found

    def _report(self, node: Node, message: str) -> Type:
        self._issues.append(Issue(node.offset, message))
        return ERROR

    def _shown(self, type: Type) -> Type:
        return resolve(self._substitution, type, free_to_dyn=True)

    def _new_parameter(self) -> Type:
        self._free += 1
        return parameter(f"_var{self._free}")

    def _fits(self, given: Type, wanted: Type) -> bool:
        extended = assign(self._substitution, (given,), (wanted,))
        if extended is None:
            return False
        self._substitution = extended
        return True

    # --- Names ------------------------------------------------------------------------------------------------------

    def _ident(self, node: Ident) -> Type:
        scopes = self._locals.get(node.name)
        if scopes:
            node.is_local = True
            return scopes[-1]
        if (found := self._variables.get(node.name)) is not None:
            self.references.add(node.name)
            return found
        if (constant := TYPE_NAMES.get(node.name)) is not None:
            node.constant = constant
            return type_of(constant)
        return self._report(node, f"undeclared reference to '{node.name}' (in container '')")

    def _qualified(self, node: Node) -> str:
        """Return the dotted name that a chain of selections is, or "" if it is none or begins with a local variable."""
        names: list[str] = []
        while isinstance(node, Select) and not node.is_test and not node.is_optional:
            names.append(node.name)
            node = node.operand
        if not isinstance(node, Ident) or self._locals.get(node.name):
            return ""
        return ".".join((node.name, *reversed(names)))

    def _select(self, node: Select) -> Type:
        if not node.is_test and (name := self._qualified(node)):
            if (found := self._variables.get(name)) is not None:
                node.qualified = name
                self.references.add(name)
                return found
            if (constant := TYPE_NAMES.get(name)) is not None:
                node.constant = constant
                return type_of(constant)
        operand = resolve(self._substitution, self._visit(node.operand))
        is_optional = operand.kind == "optional"
        target = resolve(self._substitution, operand.parameters[0]) if is_optional else operand
        found = self._field(node, target)
        if node.is_test:
            return BOOL if found is not ERROR else ERROR
        return optional_of(found) if (is_optional or node.is_optional) and found.kind != "optional" else found

    def _field(self, node: Select, target: Type) -> Type:
        if target.kind in ("dyn", "any", "error"):
            return DYN
        if target.kind == "param":
            self._fits(DYN, target)
            return DYN
        if target.kind == "map":
            return target.parameters[1]
        if target.kind == "struct":
            field = target.fields.get(node.name)
            return field.type if field is not None else self._report(node, f"undefined field '{node.name}'")
        if target.kind == "opaque" and target.name.startswith("kubernetes."):
            return self._report(node, f"unexpected failed resolution of '{target.name}'")
        return self._report(node, f"type '{self._shown(target)}' does not support field selection")

    # --- Calls ------------------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> Type:
        if node.function in _LOGICAL:
            return self._logical(node)
        if node.target is None:
            return self._overloaded(node, node.args, is_member=False)
        name = self._qualified(node.target)
        if name and f"{name}.{node.function}" in self._functions:
            node.function, node.target = f"{name}.{node.function}", None
            return self._overloaded(node, node.args, is_member=False)
        return self._overloaded(node, node.operands, is_member=True)

    def _logical(self, node: Call) -> Type:
        types = [self._visit(one) for one in node.args]
        for one in types:
            if not self._fits(one, BOOL):
                return self._mismatch(node, types, is_member=False)
        return BOOL

    def _overloaded(self, node: Call, operands: Sequence[Node], *, is_member: bool) -> Type:
        types = [self._visit(one) for one in operands]
        declared = self._functions.get(node.function)
        if declared is None:
            return self._report(node, f"undeclared reference to '{node.function}' (in container '')")
        result: Type | None = None
        for candidate in declared:
            if candidate.is_member != is_member or len(candidate.operands) != len(types):
                continue
            wanted, candidate_result = self._instantiate(candidate)
            extended = assign(self._substitution, types, wanted)
            if extended is None:
                continue
            self._substitution = extended
            node.overloads.append(candidate)
            found = resolve(extended, candidate_result)
            result = found if result is None or result == found else DYN
        return self._mismatch(node, types, is_member=is_member) if result is None else result

    def _instantiate(self, candidate: Overload) -> tuple[Sequence[Type], Type]:
        """Return the types of a signature with new type parameters."""
        if not any(map(_is_generic, candidate.operands)):
            return candidate.operands, candidate.result
        fresh: Substitution = {}

        def renew(type: Type) -> Type:
            if type.kind == "param":
                return fresh.setdefault(type.name, self._new_parameter())
            if not type.parameters:
                return type
            return Type(type.kind, type.name, tuple(map(renew, type.parameters)))

        return tuple(map(renew, candidate.operands)), renew(candidate.result)

    def _mismatch(self, node: Call, types: Sequence[Type], *, is_member: bool) -> Type:
        shown = [str(self._shown(one)) for one in types]
        text = f"{shown[0]}.({', '.join(shown[1:])})" if is_member else f"({', '.join(shown)})"
        return self._report(node, f"found no matching overload for '{node.function}' applied to '{text}'")

    # --- Aggregates -------------------------------------------------------------------------------------------------

    def _joined(self, before: Type | None, current: Type) -> Type:
        """Return the common type of elements, dyn if there is none; `literal_validation` refuses that in most calls."""
        if before is None:
            return current
        if self._fits(current, before):
            return most_general(before, current)
        return DYN

    def _element(self, node: Node, is_optional: bool) -> Type:
        found = self._visit(node)
        if not is_optional:
            return found
        shown = resolve(self._substitution, found)
        if shown.kind == "optional":
            return shown.parameters[0]
        if shown.kind not in ("dyn", "error"):
            self._report(node, f"expected type 'optional_type({self._shown(found)})' but found '{self._shown(found)}'")
        return DYN

    def _list(self, node: ListLiteral) -> Type:
        joined: Type | None = None
        for index, item in enumerate(node.items):
            joined = self._joined(joined, self._element(item, index in node.optionals))
        return list_of(joined or self._new_parameter())

    def _map(self, node: MapLiteral) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for index, (key, value) in enumerate(node.entries):
            keys = self._joined(keys, self._visit(key))
            values = self._joined(values, self._element(value, index in node.optionals))
        return map_of(keys or self._new_parameter(), values or self._new_parameter())

    def _struct(self, node: StructLiteral) -> Type:
        message = self._structs(node.name)
        if message is None:
            for _, value, _ in node.entries:
                self._visit(value)
            return self._report(node, f"undeclared reference to '{node.name}' (in container '')")
        for index, (name, value, offset) in enumerate(node.entries):
            given = self._element(value, index in node.optionals)
            field = message.fields.get(name)
            if field is None:
                self._issues.append(Issue(offset, f"undefined field '{name}'"))
            elif not self._fits(given, field.type):
                problem = f"expected type of field '{name}' is '{field.type}' but provided type is"
                self._issues.append(Issue(offset, f"{problem} '{self._shown(given)}'"))
        return message

    # --- Macros -----------------------------------------------------------------------------------------------------

    def _in_scope(self, names: Mapping[str, Type], node: Node | None, wanted: Type | None = None) -> Type:
        """Return the type of a macro's argument, in which its variables are declared."""
        if node is None:
            return DYN
        for name, declared in names.items():
            self._locals.setdefault(name, []).append(declared)
        found = self._visit(node)
        for name in names:
            self._locals[name].pop()
        if wanted is not None and not self._fits(found, wanted):
            self._report(node, f"expected type '{wanted}' but found '{self._shown(found)}'")
        return found

    def _comprehension(self, node: Comprehension) -> Type:
        source = resolve(self._substitution, self._visit(node.source))
        first: Type = DYN
        second: Type = DYN
        if source.kind == "list":
            item = source.parameters[0]
            first, second = (INT, item) if node.second else (item, DYN)
        elif source.kind == "map":
            first, second = source.parameters
        elif source.kind == "param":
            self._fits(DYN, source)
        elif source.kind not in ("dyn", "error"):
            shown = self._shown(source)
            self._report(
                node if node.kind == "sort_by" else node.source,
                f"expression of type '{shown}' cannot be range of a comprehension (must be list, map, or dynamic)",
            )
        names = {node.variable: first} | ({node.second: second} if node.second else {})
        if node.kind in ("all", "exists") and node.condition is not None:
            found = self._in_scope(names, node.condition)
            if not self._fits(found, BOOL):
                operator = "_&&_" if node.kind == "all" else "_||_"
                shown = self._shown(found)
                return self._report(node, f"found no matching overload for '{operator}' applied to '(bool, {shown})'")
            return BOOL
        if node.condition is not None:
            found = self._in_scope(names, node.condition)
            if not self._fits(found, BOOL):
                shown = self._shown(found)
                return self._report(node, f"found no matching overload for '_?_:_' applied to '({shown}, dyn, dyn)'")
        result = self._in_scope(names, node.result)
        match node.kind:
            case "exists_one":
                return BOOL
            case "filter":
                return list_of(first)
            case "map" | "transform_list":
                return list_of(result)
            case "transform_map":
                return map_of(first, result)
            case "sort_by":
                return self._sorted_type(node, source, result)
        return self._entry_type(node, result)

    def _sorted_type(self, node: Comprehension, source: Type, key: Type) -> Type:
        if source.kind not in ("list", "map", "dyn", "param", "error"):
            return list_of(DYN)  # reported as the range of a loop
        if source.kind == "map" or key.kind not in (*COMPARABLE, *_UNKNOWN):
            shown = f"{self._shown(source)}.({self._shown(list_of(key))})"
            return self._report(node, f"found no matching overload for '@sortByAssociatedKeys' applied to '{shown}'")
        return source if source.kind == "list" else list_of(DYN)

    def _entry_type(self, node: Comprehension, entry: Type) -> Type:
        key, value = self._new_parameter(), self._new_parameter()
        made = map_of(key, value)
        if not self._fits(entry, made):
            shown = self._shown(entry)
            self._report(node, f"found no matching overload for 'cel.@mapInsert' applied to '(map(dyn, dyn), {shown})'")
        return made

    def _optional_map(self, node: OptionalMap) -> Type:
        value = self._new_parameter()
        source = self._visit(node.source)
        if not self._fits(source, optional_of(value)):
            shown = self._shown(source)
            return self._report(node, f"found no matching overload for 'hasValue' applied to '{shown}.()'")
        result = self._in_scope({node.variable: resolve(self._substitution, value)}, node.result)
        if not node.is_flat:
            return optional_of(result)
        inner = self._new_parameter()
        if not self._fits(result, optional_of(inner)):
            problem = f"expected type 'optional_type(dyn)' but found '{self._shown(result)}'"
            return self._report(node.result, problem)
        return optional_of(inner)


def _is_generic(type: Type) -> bool:
    return type.kind == "param" or any(map(_is_generic, type.parameters))

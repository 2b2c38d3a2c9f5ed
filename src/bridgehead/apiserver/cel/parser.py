"""The parser: an expression's text to its syntax tree.

Pure: no I/O, no clock, no randomness. Source: CEL language definition "Syntax", cel-go `parser/parser.go`.
"""

from __future__ import annotations

from typing import Any, NoReturn

from .errors import CompileError, Issue
from .lexer import RESERVED, Token, tokenize
from .macros import expand_macro
from .syntax_tree import Call, Ident, ListLiteral, Literal, MapLiteral, Node, Select, StructLiteral
from .types import BOOL, DOUBLE, INT, NULL

# The limits of cel-go's parser.
MOST_CHARACTERS = 100_000
MOST_NESTING = 250

_PRECEDENCE = {
    "||": 1, "&&": 2,
    "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "in": 3,
    "+": 4, "-": 4,
    "*": 5, "/": 5, "%": 5,
}  # fmt: skip
_FUNCTIONS = {"in": "@in", **{operator: f"_{operator}_" for operator in _PRECEDENCE if operator != "in"}}
_CONSTANTS: dict[str, tuple[Any, Any]] = {"true": (True, BOOL), "false": (False, BOOL), "null": (None, NULL)}
_STARTS = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


def parse(expression: str, *, has_bind: bool = False) -> Node:
    """Return the syntax tree. `has_bind`: `cel.bind` is a macro. Raises CompileError."""
    if len(expression) > MOST_CHARACTERS:
        problem = f"expression code point size exceeds limit: size: {len(expression)}, limit {MOST_CHARACTERS}"
        raise CompileError("", [Issue(None, problem)])
    tokens, issues = tokenize(expression)
    parser = _Parser(tokens, issues, has_bind=has_bind)
    try:
        node = parser.parse_all()
    except _SyntaxError as error:
        issues.append(error.issue)
    except RecursionError:
        issues.append(_too_deep())
    if issues:
        raise CompileError(expression, issues)
    return node


def _too_deep() -> Issue:
    return Issue(None, f"expression recursion limit exceeded: {MOST_NESTING}")


class _SyntaxError(Exception):
    def __init__(self, issue: Issue) -> None:
        super().__init__(issue.message)
        self.issue = issue


class _Parser:
    def __init__(self, tokens: list[Token], issues: list[Issue], *, has_bind: bool) -> None:
        self._tokens = tokens
        self._issues = issues
        self._has_bind = has_bind
        self._index = 0
        self._depth = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._index]

    def parse_all(self) -> Node:
        node = self._expression()
        if self._next.kind != "end":
            is_last = self._tokens[self._index + 1 :][:1] == self._tokens[-1:]
            self._fail("extraneous" if is_last else "mismatched", "<EOF>")
        return node

    def _take(self) -> Token:
        token = self._next
        self._index += 1
        return token

    def _accept(self, *operators: str) -> Token | None:
        token = self._next
        if token.kind == "operator" and token.text in operators:
            self._index += 1
            return token
        return None

    def _expect(self, operator: str) -> Token:
        token = self._accept(operator)
        if token is None:
            self._fail("mismatched", f"'{operator}'")
        return token

    def _fail(self, how: str, expected: str) -> NoReturn:
        token = self._next
        raise _SyntaxError(Issue(token.offset, f"Syntax error: {how} input '{token.text}' expecting {expected}"))

    def _deeper(self, levels: int = 1) -> None:
        self._depth += levels
        if self._depth > MOST_NESTING:
            raise _SyntaxError(_too_deep())

    def _expression(self) -> Node:
        self._deeper()
        node = self._binary(1)
        if question := self._accept("?"):
            yes = self._binary(1)
            self._expect(":")
            node = Call(question.offset, "_?_:_", None, [node, yes, self._expression()])
        self._depth -= 1
        return node

    def _binary(self, lowest: int) -> Node:
        node = self._unary()
        levels = 0
        while True:
            token = self._next
            precedence = _PRECEDENCE.get(token.text, 0) if token.kind in ("operator", "name") else 0
            if precedence < lowest or not precedence:
                self._depth -= levels
                return node
            self._index += 1
            other = self._binary(precedence + 1)
            function = _FUNCTIONS[token.text]
            if precedence <= 2 and isinstance(node, Call) and node.function == function and levels:
                node.args.append(other)  # a long conjunction does not nest
                continue
            levels += 1
            self._deeper()
            node = Call(token.offset, function, None, [node, other])

    def _unary(self) -> Node:
        token = self._accept("!", "-")
        if token is None:
            return self._member()
        if token.text == "-" and self._next.kind == "literal" and self._next.type in (INT, DOUBLE):
            self._index -= 1
            return self._member()
        count = 1
        while self._accept(token.text):
            count += 1
        node = self._member()
        if count % 2 == 0:
            return node
        return Call(token.offset, "!_" if token.text == "!" else "-_", None, [node])

    def _member(self) -> Node:
        node = self._primary()
        levels = 0
        while True:
            token = self._accept(".", ".?", "[", "[?")
            if token is None:
                self._depth -= levels
                return node
            levels += 1
            self._deeper()
            if token.text[0] == "[":
                index = self._expression()
                self._expect("]")
                node = Call(token.offset, "_[_]" if token.text == "[" else "_[?_]", None, [node, index])
                continue
            name = self._name()
            opening = self._accept("(") if token.text == "." else None
            if opening is None:
                node = Select(token.offset, node, name, is_optional=token.text == ".?")
            else:
                call = Call(opening.offset, name, node, self._arguments(")"))
                node = self._expand(call)

    def _expand(self, call: Call) -> Node:
        return expand_macro(call, self._issues, has_bind=self._has_bind)

    def _name(self) -> str:
        token = self._next
        if token.kind != "name" or token.text in ("in", "true", "false", "null"):
            self._fail("mismatched", "IDENTIFIER")
        self._index += 1
        return token.text

    def _primary(self) -> Node:
        token = self._take()
        match token.kind, token.text:
            case "literal", _:
                return self._literal(token, "")
            case "name", "true" | "false" | "null":
                return Literal(token.offset, *_CONSTANTS[token.text])
            case "operator", "-" if self._next.kind == "literal":
                return self._literal(self._take(), "-", token.offset)
            case "operator", "(":
                node = self._expression()
                self._expect(")")
                return node
            case "operator", "[" | "[?":
                return self._list(token)
            case "operator", "{":
                return self._map(token)
            case "operator", ".":
                return self._named(self._take(), token.offset)
            case "name", name if name != "in":
                return self._named(token, token.offset)
        self._index -= 1
        self._fail("mismatched", _STARTS)
        return None

    def _literal(self, token: Token, sign: str, offset: int | None = None) -> Node:
        literal_type = token.type or INT
        value = token.value
        if sign:
            value = -value
        elif literal_type is INT and value == 2**63:
            self._issues.append(Issue(token.offset, "invalid int literal"))
        return Literal(token.offset if offset is None else offset, value, literal_type)

    def _named(self, token: Token, offset: int) -> Node:
        """Parse what begins with a name: a variable, a call of a function, or a struct."""
        if token.kind != "name":
            self._index -= 1
            self._fail("mismatched", "IDENTIFIER")
        if token.text in RESERVED:
            self._issues.append(Issue(token.offset, f"reserved identifier: {token.text}"))
        if opening := self._accept("("):
            return self._expand(Call(opening.offset, token.text, None, self._arguments(")")))
        struct = self._struct_name(token.text)
        if struct is not None:
            return self._struct(struct)
        return Ident(offset, token.text)

    def _struct_name(self, first: str) -> str | None:
        """Return the qualified name if a struct literal follows, and pass over it; else None."""
        index, name = self._index, first
        tokens = self._tokens
        while tokens[index].text == "." and tokens[index + 1].kind == "name":
            name += "." + tokens[index + 1].text
            index += 2
        if tokens[index].kind == "operator" and tokens[index].text == "{":
            self._index = index
            return name
        return None

    def _arguments(self, end: str) -> list[Node]:
        found: list[Node] = []
        if self._accept(end):
            return found
        while True:
            found.append(self._expression())
            if not self._accept(","):
                self._expect(end)
                return found

    def _list(self, opening: Token) -> Node:
        items: list[Node] = []
        optionals: set[int] = set()
        is_optional = opening.text == "[?"
        while is_optional or not self._accept("]"):
            if is_optional or self._accept("?"):
                optionals.add(len(items))
            is_optional = False
            items.append(self._expression())
            if not self._accept(","):
                self._expect("]")
                break
        return ListLiteral(opening.offset, items, frozenset(optionals))

    def _map(self, opening: Token) -> Node:
        entries: list[tuple[Node, Node]] = []
        optionals: set[int] = set()
        while not self._accept("}"):
            if self._accept("?"):
                optionals.add(len(entries))
            key = self._expression()
            self._expect(":")
            entries.append((key, self._expression()))
            if not self._accept(","):
                self._expect("}")
                break
        return MapLiteral(opening.offset, entries, frozenset(optionals))

    def _struct(self, name: str) -> Node:
        opening = self._expect("{")
        entries: list[tuple[str, Node, int]] = []
        optionals: set[int] = set()
        while not self._accept("}"):
            if self._accept("?"):
                optionals.add(len(entries))
            field = self._name()
            colon = self._expect(":")
            entries.append((field, self._expression(), colon.offset))
            if not self._accept(","):
                self._expect("}")
                break
        return StructLiteral(opening.offset, name, entries, frozenset(optionals))

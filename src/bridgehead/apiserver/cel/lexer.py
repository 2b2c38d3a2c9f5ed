"""The tokens of an expression.

Pure: no I/O, no clock, no randomness. Source: CEL language definition "Syntax", cel-go `parser/gen/CEL.g4`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .errors import Issue
from .types import BYTES, DOUBLE, INT, STRING, UINT, Type
from .values import Uint

_STRING = (
    r"""[bB]?[rR]?(?:"{3}(?:[^\\]|\\.)*?"{3}|'{3}(?:[^\\]|\\.)*?'{3}|"(?:[^\\"\n\r]|\\.)*"|'(?:[^\\'\n\r]|\\.)*')"""
)
# A raw string has no escapes, so a backslash does not protect the quote.
_RAW = r"""[bB]?[rR](?:"{3}.*?"{3}|'{3}.*?'{3}|"[^"\n\r]*"|'[^'\n\r]*')"""
_TOKEN = re.compile(
    rf"(?P<space>[ \t\r\n\f]+|//[^\n]*)|(?P<text>{_RAW}|{_STRING})"
    r"|(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)"
    r"|(?P<int>0[xX][0-9a-fA-F]+[uU]?|\d+[uU]?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<operator>==|!=|<=|>=|&&|\|\||\.\?|\[\?|[-+*/%<>!?:.,()\[\]{}])",
    re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(
    r"\\(?:(?P<simple>[abfnrtv\\'\"`?])|[xX](?P<hex>[0-9a-fA-F]{2})|u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})"
    r"|(?P<octal>[0-3][0-7]{2})|(?P<wrong>.))",
    re.DOTALL,
)
# Names that no variable and no function can have; all but the first four are kept for later versions of the language.
RESERVED = frozenset({
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
    "loop", "package", "namespace", "return", "var", "void", "while",
})  # fmt: skip
_SIMPLE_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is name, literal, operator or end; `text` is what the expression contains."""

    kind: str
    text: str
    offset: int
    value: Any = None
    type: Type | None = None


def tokenize(expression: str) -> tuple[list[Token], list[Issue]]:
    """Return the tokens, ending with one of kind `end`, and the errors."""
    tokens: list[Token] = []
    issues: list[Issue] = []
    offset = 0
    while offset < len(expression):
        match = _TOKEN.match(expression, offset)
        if match is None:
            end = offset + 1
            if expression[offset] in "'\"":  # a string that does not end
                newline = expression.find("\n", offset)
                end = len(expression) if newline < 0 else newline
            issues.append(Issue(offset, f"Syntax error: token recognition error at: '{expression[offset:end]}'"))
            offset = end
            continue
        text, kind = match[0], match.lastgroup
        if kind in ("text", "float", "int"):
            try:
                value, literal_type = _literal(text, kind)
            except ValueError as error:
                issues.append(Issue(offset, str(error)))
                value, literal_type = 0, INT
            tokens.append(Token("literal", text, offset, value, literal_type))
        elif kind != "space":
            tokens.append(Token(str(kind), text, offset))
        offset = match.end()
    tokens.append(Token("end", "<EOF>", len(expression)))
    return tokens, issues


def _literal(text: str, kind: str) -> tuple[Any, Type]:
    if kind == "text":
        return _text(text)
    if kind == "float":
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise ValueError("invalid double literal")
        return number, DOUBLE
    is_unsigned = text[-1] in "uU"
    digits = text[:-1] if is_unsigned else text
    if len(digits) > 40:  # far outside of the range
        raise ValueError("invalid uint literal" if is_unsigned else "invalid int literal")
    value = int(digits, 16 if digits[:2] in ("0x", "0X") else 10)
    if is_unsigned:
        if value >= 2**64:
            raise ValueError("invalid uint literal")
        return Uint(value), UINT
    # 2**63 is valid after a minus sign only; the parser checks that.
    if value > 2**63:
        raise ValueError("invalid int literal")
    return value, INT


def _text(text: str) -> tuple[Any, Type]:
    start = min(text.find(quote) for quote in "'\"" if quote in text)
    prefix = text[:start].lower()
    width = 3 if text[start : start + 3] in ("'''", '"""') and len(text) >= start + 6 else 1
    body = text[start + width : -width]
    if "b" in prefix:
        if "r" in prefix:
            return body.encode(), BYTES
        parts, last = [], 0
        for match in _ESCAPE.finditer(body):
            parts += [body[last : match.start()].encode(), bytes([_code(match, in_bytes=True)])]
            last = match.end()
        return b"".join((*parts, body[last:].encode())), BYTES
    if "r" in prefix or "\\" not in body:
        return body, STRING
    return _ESCAPE.sub(lambda match: chr(_code(match, in_bytes=False)), body), STRING


def _code(match: re.Match[str], *, in_bytes: bool) -> int:
    """Return the character or byte of an escape sequence. Raises ValueError for an invalid one."""
    if (simple := match["simple"]) is not None:
        return ord(_SIMPLE_ESCAPES.get(simple, simple))
    if match["wrong"] is not None or (in_bytes and (match["short"] or match["long"])):
        raise ValueError("Syntax error: token recognition error: invalid escape sequence")
    if match["octal"]:
        return int(match["octal"], 8)
    code = int(match["hex"] or match["short"] or match["long"], 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError("invalid unicode code point")
    return code

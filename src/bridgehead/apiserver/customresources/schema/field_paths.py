"""Field paths in a definition: the `fieldPath` of a rule and the `jsonPath` of a selectable field.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go
(ValidFieldPath).
"""

from __future__ import annotations

import re

from .node import Node
from .paths import child, key

_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class BadFieldPath(Exception):
    """A path that is malformed, or that names no field of the schema."""


def resolve(path: str, node: Node, *, allows_brackets: bool = True) -> tuple[str, Node]:
    """Return a path such as `.spec.limits['cpu']` in the form of errors, and the schema there. Raises BadFieldPath."""
    tokens = iter(_TOKEN.findall(path))
    found, current = "", node
    for token in tokens:
        if token == ".":
            name = _next(tokens)
        elif token == "[":
            if not allows_brackets:
                raise BadFieldPath("array notation is not allowed")
            name = _unquoted(_next(tokens))
        else:
            raise BadFieldPath(f"expected [ or . but got: {token}")
        below = current.properties.get(name) if current.properties else current.additional
        if below is None:
            raise BadFieldPath("does not refer to a valid field")
        found = child(found, name) if current.properties else key(found, name)
        current = below
        if token == "[" and (end := _next(tokens)) != "]":
            raise BadFieldPath(f"expected ] but got {end}")
    return found, current


def _next(tokens: object) -> str:
    token: str | None = next(tokens, None)  # type: ignore[call-overload]
    if token is None:
        raise BadFieldPath("unexpected end of JSON path")
    return token


def _unquoted(token: str) -> str:
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise BadFieldPath(f"expected single quoted string but got {token}")

    def replace(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPED:
            raise BadFieldPath(f"invalid string literal: invalid escape char {match[0]}")
        return _ESCAPED[match[1]]

    return _ESCAPE.sub(replace, token[1:-1])

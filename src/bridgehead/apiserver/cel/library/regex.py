"""Regular expressions: RE2, as in Go, so that their time is linear in the text whatever the expression.

Pure: no I/O, no clock, no randomness.
Source: cel-go `common/types/string.go`, Kubernetes `apiserver/pkg/cel/library/regex.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridgehead.apiserver import go_patterns
from bridgehead.apiserver.cel.costs import REGEX, REGEX_FIND
from bridgehead.apiserver.cel.declarations import Overload, overload
from bridgehead.apiserver.cel.errors import EvaluationError
from bridgehead.apiserver.cel.values import Frame

# The work of one match (`values.Frame.do`).
_MATCH_WORK = 100


def compile_pattern(pattern: str) -> Any:
    """Return a compiled pattern, with `search` and `finditer`. Raises EvaluationError for an invalid pattern."""
    try:
        return go_patterns.compile_pattern(pattern)
    except go_patterns.BadPattern as error:
        raise EvaluationError(str(error)) from None


def matches(text: str, pattern: str) -> bool:
    return compile_pattern(pattern).search(text) is not None


def _searched(pattern: str) -> Any:
    try:
        return compile_pattern(pattern)
    except EvaluationError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _find(text: str, pattern: str) -> str:
    match = _searched(pattern).search(text)
    return "" if match is None else str(match.group())


def _find_all(frame: Frame, text: str, pattern: str, limit: int = -1) -> list[str]:
    found: list[str] = []
    frame.do(len(text) // 8)
    for match in _searched(pattern).finditer(text):
        if 0 <= limit <= len(found):
            break
        frame.do(_MATCH_WORK)
        found.append(str(match.group()))
    return found


FUNCTIONS: Mapping[str, tuple[Overload, ...]] = {
    "matches": (
        overload("string.(string) -> bool", matches, REGEX),
        overload("(string, string) -> bool", matches, REGEX),
    ),
    "find": (overload("string.(string) -> string", _find, REGEX_FIND),),
    "findAll": (
        overload("string.(string) -> list(string)", _find_all, REGEX_FIND, needs_frame=True),
        overload("string.(string, int) -> list(string)", _find_all, REGEX_FIND, needs_frame=True),
    ),
}

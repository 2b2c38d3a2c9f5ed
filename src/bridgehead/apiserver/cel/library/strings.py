"""Functions of strings: CEL's own and those of cel-go's extension library.

Positions count characters. Pure: no I/O, no clock, no randomness.
Source: CEL language definition "Standard definitions", cel-go `ext/strings.go` (version 2).
"""

from __future__ import annotations

from collections.abc import Mapping

from bridgehead.apiserver.cel.costs import AFFIX, JOIN, REPLACE, SPLIT, SUBSTRING_SEARCH, traversal
from bridgehead.apiserver.cel.declarations import Overload, overload
from bridgehead.apiserver.cel.errors import EvaluationError
from bridgehead.apiserver.cel.values import Frame

from .formatting import format_text

_LOWER = str.maketrans({chr(code): chr(code + 32) for code in range(ord("A"), ord("Z") + 1)})
_UPPER = str.maketrans({chr(code): chr(code - 32) for code in range(ord("a"), ord("z") + 1)})
_ESCAPES = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\"}
# Characters of a new string that count as one unit of work (`Frame.do`).
_CHARACTERS = 8


def _char_at(text: str, index: int) -> str:
    if 0 <= index <= len(text):
        return text[index : index + 1]
    raise EvaluationError(f"index out of range: {index}")


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if not 0 <= start <= max(len(text) - 1, 0):
        raise EvaluationError(f"index out of range: {start}")
    return text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(part) if part else len(text)
    if not part:
        return start
    if not 0 <= start < max(len(text), 1):
        raise EvaluationError(f"index out of range: {start}")
    return text.rfind(part, 0, start + len(part))


def _substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, last):
        if not 0 <= index <= len(text):
            raise EvaluationError(f"index out of range: {index}")
    return text[start:last]


def _replace(frame: Frame, text: str, old: str, new: str, count: int = -1) -> str:
    found = len(text) + 1 if not old else text.count(old)
    if 0 <= count < found:
        found = count
    frame.do(max(0, len(text) + found * (len(new) - len(old))) // _CHARACTERS)
    return text.replace(old, new, count)


def _split(frame: Frame, text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    frame.do(text.count(separator) if separator else len(text))
    if separator:
        return text.split(separator, count - 1 if count > 0 else -1)
    if count < 0 or count >= len(text):
        return list(text)
    return [*text[: count - 1], text[count - 1 :]]


def _join(frame: Frame, items: list[str], separator: str = "") -> str:
    if not all(type(item) is str for item in items):
        raise EvaluationError("no such overload")
    frame.do((sum(map(len, items)) + len(items) * len(separator)) // _CHARACTERS)
    return separator.join(items)


def _quote(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(one, one) for one in text).replace('"', r"\"") + '"'


_KEEPS = traversal(keeps_size=True)

FUNCTIONS: Mapping[str, tuple[Overload, ...]] = {
    "contains": (overload("string.(string) -> bool", lambda text, part: part in text, SUBSTRING_SEARCH),),
    "startsWith": (overload("string.(string) -> bool", str.startswith, AFFIX),),
    "endsWith": (overload("string.(string) -> bool", str.endswith, AFFIX),),
    "charAt": (overload("string.(int) -> string", _char_at),),
    "indexOf": (
        overload("string.(string) -> int", _index_of, traversal()),
        overload("string.(string, int) -> int", _index_of, traversal()),
    ),
    "lastIndexOf": (
        overload("string.(string) -> int", _last_index_of, traversal()),
        overload("string.(string, int) -> int", _last_index_of, traversal()),
    ),
    "lowerAscii": (overload("string.() -> string", lambda text: text.translate(_LOWER), _KEEPS),),
    "upperAscii": (overload("string.() -> string", lambda text: text.translate(_UPPER), _KEEPS),),
    "substring": (
        overload("string.(int) -> string", _substring, _KEEPS),
        overload("string.(int, int) -> string", _substring, _KEEPS),
    ),
    "trim": (overload("string.() -> string", str.strip, _KEEPS),),
    "replace": (
        overload("string.(string, string) -> string", _replace, REPLACE, needs_frame=True),
        overload("string.(string, string, int) -> string", _replace, REPLACE, needs_frame=True),
    ),
    "split": (
        overload("string.(string) -> list(string)", _split, SPLIT, needs_frame=True),
        overload("string.(string, int) -> list(string)", _split, SPLIT, needs_frame=True),
    ),
    "join": (
        overload("list(string).() -> string", _join, JOIN, needs_frame=True),
        overload("list(string).(string) -> string", _join, JOIN, needs_frame=True),
    ),
    "format": (overload("string.(list(dyn)) -> string", format_text, traversal(), needs_frame=True),),
    "strings.quote": (overload("(string) -> string", _quote, traversal()),),
}

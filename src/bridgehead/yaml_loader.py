"""The loader for all YAML that Bridgehead reads: values of JSON from a document that may be hostile.

A document is read as by Kubernetes' library, and bounded while it is built: each alias and merge is counted as all that
it stands for before anything is copied. libyaml's parser takes a tenth of the time of PyYAML's own, but PyYAML may be
built without it. Import this module only where YAML is read: parts inside a cluster never load PyYAML.
Source: sigs.k8s.io/yaml (convertToJSONableObject), go.yaml.in/yaml/v2 (decode.go, resolve.go).
"""

from __future__ import annotations

import binascii
import math
import re
import sys
from base64 import b64decode
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

try:
    from yaml import CSafeLoader as _Parser
except ImportError:
    from yaml import SafeLoader as _Parser  # type: ignore[assignment]

__all__ = ["UnusableYaml", "duplicate_keys", "load", "load_all", "load_object", "load_texts"]

_MAX_EVENTS: Final = 150_000  # some tenths of a second of work; no real object comes near
_MAX_DEPTH: Final = 200  # with aliases expanded
_MAX_ALIASED_TEXT: Final = 16 << 20  # characters of scalars that are there by aliases
_MAX_TAG_DIRECTIVES: Final = 100  # libyaml compares each one with all others
_MAX_DIGITS: Final = 4300  # Python converts no longer integer

# Kubernetes' library bounds the share of nodes that aliases bring: 99 % in a small document, 10 % in a large one, which
# are 400,000 nodes in both. Source: yaml/v2 decode.go (allowedAliasRatio).
_RATIO_RANGE: Final = (400_000, 4_000_000)
_RATIO: Final = (0.99, 0.10)
_UNBOUNDED: Final = (100, 1000)  # nodes by aliases, all nodes

_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = "<<"
_DIRECTIVE: Final = re.compile(rb"(?:\A|[\r\n]|\xef\xbb\xbf|\xc2\x85|\xe2\x80[\xa8\xa9])%TAG")

Scalar = str | int | float | bool | None


class UnusableYaml(ValueError):
    """The document has a syntax error, has no equivalent in JSON or is beyond a bound. The message is one line."""


def load_object(text: bytes | str) -> Any:
    """Load the first document; None without any. Raises `UnusableYaml` with the text of Go's library."""
    return next(_documents(text, _resolve), None)


def load(text: bytes | str) -> Any:
    """Load the only document, as for a configuration file; None without any. Raises `UnusableYaml`."""
    return _only(_documents(text, _resolve))


def load_texts(text: bytes | str) -> Any:
    """Load the only document with numbers as texts, for formats whose fields decide what a scalar is. See `load`."""
    return _only(_documents(text, _resolve_text))


def load_all(text: bytes | str) -> list[Any]:
    """Load all documents. Raises `UnusableYaml`."""
    return list(_documents(text, _resolve))


def duplicate_keys(text: bytes | str, *, is_json: bool) -> list[str]:
    """Return the texts of Go's library about keys that a mapping of the first document has twice.

    Errors of inner mappings come first. JSON, which has no aliases, may have any number of nodes. Raises
    `UnusableYaml`.
    """
    found: list[str] = []
    next(_documents(text, _resolve, found, sys.maxsize if is_json else _MAX_EVENTS), None)
    return found


def _only(documents: Iterator[Any]) -> Any:
    document = next(documents, None)
    for _ in documents:
        raise UnusableYaml("yaml: expected a single document, but found another one")
    return document


def _documents(
    text: bytes | str,
    resolve: Callable[[str], Scalar],
    duplicates: list[str] | None = None,
    max_events: int | None = None,
) -> Iterator[Any]:
    try:
        parser: Any = _Parser(_as_utf8(text))  # its methods have no types
        try:
            while not isinstance(event := parser.get_event(), yaml.StreamEndEvent):
                if isinstance(event, yaml.DocumentStartEvent):
                    yield _Builder(parser.get_event, resolve, duplicates).build(max_events or _MAX_EVENTS)
        finally:
            parser.dispose()
    except UnusableYaml:
        raise
    except yaml.YAMLError as error:
        raise UnusableYaml(_go_text(error)) from None
    except ValueError as error:  # not Unicode
        raise UnusableYaml(" ".join(str(error).split())) from None


def _as_utf8(text: bytes | str) -> bytes:
    """Return the text in UTF-8, in which tag directives can be counted."""
    if isinstance(text, str):
        text = text.encode()
    elif text.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        text = text.decode("utf-16").encode()
    if text.count(b"%TAG") > _MAX_TAG_DIRECTIVES and len(_DIRECTIVE.findall(text)) > _MAX_TAG_DIRECTIVES:
        raise UnusableYaml("yaml: the document has too many %TAG directives")
    return text


def _go_text(error: yaml.YAMLError) -> str:
    """Return the text of Go's library for an error of libyaml, whose problems both share."""
    if isinstance(error, yaml.reader.ReaderError):
        return f"yaml: {error.reason}"
    if not isinstance(error, yaml.MarkedYAMLError) or not error.problem:
        return " ".join(f"yaml: {error}".split())
    marks = (error.context_mark, error.problem_mark)
    line = next((mark.line for mark in marks if mark is not None and mark.line), 0)
    if line and isinstance(error, yaml.scanner.ScannerError):
        line += 1
    return f"yaml: line {line}: {error.problem}" if line else f"yaml: {error.problem}"


@dataclass(slots=True)
class _Anchor:
    """A node that aliases repeat, with the aliases in it expanded. `nodes` is 0 until the node ends."""

    value: Any = None
    nodes: int = 0
    text: int = 0
    depth: int = 0  # of collections; 0: a scalar


@dataclass(slots=True)
class _Open:
    """A collection that has not ended."""

    value: dict[str, Any] | list[Any]
    anchor: _Anchor | None
    line: int
    nodes: int  # before it
    text: int
    key: Any = None  # the key whose value is next; `_NO_KEY`: a key is next
    depth: int = 1
    keys: set[str] = field(default_factory=set)


_NO_KEY: Final = object()
_MERGED: Final = object()  # the key is `<<`


class _Builder:
    """Builds the value of one document from its events."""

    def __init__(
        self, next_event: Callable[[], Any], resolve: Callable[[str], Scalar], duplicates: list[str] | None
    ) -> None:
        self._next_event = next_event
        self._resolve = resolve
        self._duplicates = duplicates
        self._anchors: dict[str, _Anchor] = {}
        self._open: list[_Open] = []
        self._nodes = 1  # Go counts the document
        self._aliased = 0
        self._text = self._aliased_text = 0
        self._root: Any = None

    def build(self, max_events: int) -> Any:
        """Read the events until the document ends. Raises `UnusableYaml`, `yaml.YAMLError`."""
        for _ in range(max_events):
            event = self._next_event()
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self._add_scalar(event)
            elif kind is yaml.MappingStartEvent:
                self._start(event, {})
            elif kind is yaml.SequenceStartEvent:
                self._start(event, [])
            elif kind is yaml.AliasEvent:
                self._add_alias(event)
            elif kind is yaml.DocumentEndEvent:
                return self._root
            else:
                self._end()
        raise UnusableYaml("yaml: the document has too many nodes; send it as JSON")

    def _add_scalar(self, event: Any) -> None:
        text: str = event.value
        self._nodes += 1
        self._text += len(text)
        is_plain: bool = event.implicit[0]
        if is_plain and text == _MERGE and self._is_key_next():
            value: Any = _MERGED
        elif event.tag is not None and event.tag != "!":
            value = _MERGED if event.tag == f"{_TAG}merge" and self._is_key_next() else self._tagged(event.tag, text)
        else:
            value = self._resolve(text) if is_plain else text
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchor(_MERGE if value is _MERGED else value, 1, len(text))
        self._add(value, event.start_mark.line)

    def _tagged(self, tag: str, text: str) -> Scalar:
        """Return a scalar with a tag. Unknown tags are ignored. Source: yaml/v2 (resolve)."""
        kind = tag.removeprefix(_TAG)
        if kind == "binary":
            try:
                return b64decode("".join(text.split()), validate=True).decode(errors="replace")
            except binascii.Error:
                raise UnusableYaml("yaml: !!binary value contains invalid base64 data") from None
        if kind == "str" or kind not in _KINDS:
            return text
        value = self._resolve(text)
        if kind == "float" and type(value) is int:
            return float(value)
        if self._resolve is _resolve and _KINDS[kind] is not type(value):
            shown = next(name for name, type_ in _KINDS.items() if type_ is type(value))
            raise UnusableYaml(f"yaml: cannot decode !!{shown} `{' '.join(text[:100].split())}` as a !!{kind}")
        return value

    def _is_key_next(self) -> bool:
        return bool(self._open) and self._open[-1].key is _NO_KEY and isinstance(self._open[-1].value, dict)

    def _add_alias(self, event: Any) -> None:
        found = self._anchors.get(event.anchor)
        if found is None:
            raise UnusableYaml(f"yaml: unknown anchor '{event.anchor}' referenced")
        if not found.nodes:
            raise UnusableYaml(f"yaml: anchor '{event.anchor}' value contains itself")
        self._nodes += 1 + found.nodes
        self._text += found.text
        self._aliased += found.nodes
        self._aliased_text += found.text
        if _is_excessive(self._aliased, self._nodes) or self._aliased_text > _MAX_ALIASED_TEXT:
            raise UnusableYaml("yaml: document contains excessive aliasing")
        self._check_depth(len(self._open) + found.depth)
        if self._open:
            top = self._open[-1]
            top.depth = max(top.depth, found.depth + 1)
            if top.key is _MERGED and not isinstance(found.value, dict):
                raise _no_mapping()
        self._add(found.value, event.start_mark.line)

    def _start(self, event: Any, value: dict[str, Any] | list[Any]) -> None:
        self._check_depth(len(self._open) + 1)
        anchor = None
        if event.anchor is not None:
            anchor = self._anchors[event.anchor] = _Anchor(value)
        self._open.append(_Open(value, anchor, event.start_mark.line, self._nodes, self._text, _NO_KEY))
        self._nodes += 1

    def _end(self) -> None:
        done = self._open.pop()
        if done.anchor is not None:
            done.anchor.nodes, done.anchor.text = self._nodes - done.nodes, self._text - done.text
            done.anchor.depth = done.depth
        if self._open:
            self._open[-1].depth = max(self._open[-1].depth, done.depth + 1)
        self._add(done.value, done.line)

    def _add(self, value: Any, line: int) -> None:
        """Add a finished node to the collection that it is in."""
        if not self._open:
            self._root = value
            return
        top = self._open[-1]
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.key is _NO_KEY:
            top.key = value if type(value) is str or value is _MERGED else _key_text(value)
        elif top.key is _MERGED:
            _merge(value, top.value)
            top.key = _NO_KEY
        else:
            if self._duplicates is not None:
                if top.key in top.keys:
                    self._duplicates.append(f'line {line + 1}: key "{top.key}" already set in map')
                top.keys.add(top.key)
            top.value[top.key] = value
            top.key = _NO_KEY

    @staticmethod
    def _check_depth(depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise UnusableYaml(f"yaml: exceeded max depth of {_MAX_DEPTH}")


def _is_excessive(aliased: int, nodes: int) -> bool:
    if aliased <= _UNBOUNDED[0] or nodes <= _UNBOUNDED[1]:
        return False
    low, high = _RATIO_RANGE
    share = min(max((nodes - low) / (high - low), 0.0), 1.0)
    return aliased / nodes > _RATIO[0] + (_RATIO[1] - _RATIO[0]) * share


def _merge(value: Any, into: dict[str, Any]) -> None:
    """Merge one mapping, or several of which the first ones have precedence. Later keys replace them, as in Go."""
    for mapping in reversed(value) if isinstance(value, list) else (value,):
        if not isinstance(mapping, dict):
            raise _no_mapping()
        into.update(mapping)


def _no_mapping() -> UnusableYaml:
    return UnusableYaml("yaml: map merge requires map or sequence of maps as the value")


def _key_text(key: Any) -> str:
    """Return the key of a mapping as JSON has it. Source: sigs.k8s.io/yaml (convertToJSONableObject)."""
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise UnusableYaml("a key is neither a text nor a number nor a boolean")


_KINDS: Final[dict[str, type]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "null": type(None),
}
_CONSTANTS: Final[Mapping[str, Scalar]] = {
    word: value
    for value, texts in (
        (True, "y Y yes Yes YES true True TRUE on On ON"),
        (False, "n N no No NO false False FALSE off Off OFF"),
        (None, "~ null Null NULL"),
        (math.nan, ".nan .NaN .NAN"),
        (math.inf, ".inf .Inf .INF +.inf +.Inf +.INF"),
        (-math.inf, "-.inf -.Inf -.INF"),
    )
    for word in texts.split()
} | {"": None}
_NO_WORD: Final = object()
_FIRST_OF_NUMBERS: Final = frozenset("-+.0123456789")
_INTEGER: Final = re.compile("[-+]?(?:0[bB][01]+|0[xX][0-9a-fA-F]+|0(?:[oO]?[0-7]+)?|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASES: Final = {"b": 2, "x": 16, "o": 8}


def _resolve_text(text: str) -> Scalar:
    """Return what a plain scalar stands for, but numbers as texts."""
    word = _CONSTANTS.get(text, _NO_WORD)
    return text if word is _NO_WORD or isinstance(word, float) else word  # type: ignore[return-value]


def _resolve(text: str) -> Scalar:
    """Return what a plain scalar stands for. YAML 1.1's numbers of base 60 and timestamps are texts."""
    word = _CONSTANTS.get(text, _NO_WORD)
    if word is not _NO_WORD:
        return word  # type: ignore[return-value]
    if text[0] not in _FIRST_OF_NUMBERS:
        return text
    plain = text.replace("_", "") if text[0] != "." else text
    if _INTEGER.fullmatch(plain) and len(plain) <= _MAX_DIGITS:
        number = _integer(plain)
        if -(1 << 63) <= number < 1 << (63 if plain[0] in "-+" else 64):
            return number
    if _FLOAT.fullmatch(plain):
        value = float(plain)
        if math.isfinite(value):
            return value
    return text


def _integer(text: str) -> int:
    digits = text.lstrip("-+")
    base = _BASES.get(digits[1:2].lower(), 8 if digits[0] == "0" else 10)
    value = int(digits[2:] if digits[1:2].isalpha() else digits, base)
    return -value if text[0] == "-" else value

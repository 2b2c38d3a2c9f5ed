"""Fields that a body has twice, and the texts about them and about unknown fields.

Pure: no I/O, no clock, no randomness. Source: sigs.k8s.io/json (strict decoding), goyaml.v2 (setMapIndex).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from bridgehead.apiserver.errors import bad_request

_MAX_PROBLEMS = 100  # as in sigs.k8s.io/json (saveStrictError)


def field_problems(duplicates: Sequence[str], unknown: Sequence[str]) -> list[str]:
    """Return Kubernetes' texts for the paths of duplicate and unknown fields, each once, at most `_MAX_PROBLEMS`."""
    return _first(chain(map(_duplicate, duplicates), map(_unknown, unknown)))


def problems_in_order(body: bytes, unknown: Collection[str]) -> list[str]:
    """Return the texts of `field_problems` in the order in which the fields are in a JSON body."""
    found = _find_problems(_decode_members(body), "", frozenset(unknown))
    return _first(_unknown(path) if is_unknown else _duplicate(path) for is_unknown, path in found)


def duplicate_fields(body: bytes, value: Any) -> list[str]:
    """Return paths of fields that a JSON object has twice. `value` is what the body was decoded to.

    Raises a 400 for too deep nesting.
    """
    try:
        if is_encoding(body, value):
            return []
        try:
            _check_unique(body.decode(errors="replace"))
            return []
        except _DuplicateFound:
            return list(dict.fromkeys(path for _, path in _find_problems(_decode_members(body), "", frozenset())))
    except RecursionError:
        raise bad_request("json: exceeded max depth") from None


def is_encoding(body: bytes, value: Any) -> bool:
    """Whether a body is what this server writes for `value`, but for white space: then it has each field once.

    Most programs write JSON in this way.
    """
    encoded = _encode(value)
    if encoded == body.rstrip():
        return True
    try:
        return encoded == msgspec.json.format(body, indent=-1)
    except (msgspec.DecodeError, UnicodeDecodeError):  # not Unicode, which Go's decoder accepts
        return False


def duplicate_lines(body: bytes, *, is_json: bool = False) -> str:
    """Return goyaml's text about keys that a mapping has twice, "" without any.

    The body is YAML that `serialization.load_yaml` accepts, or JSON that the reader of YAML may refuse: ValueError.
    """
    from bridgehead.yaml_loader import duplicate_keys  # loaded on demand, as in `serialization`

    found = _first(duplicate_keys(body, is_json=is_json))
    return "yaml: unmarshal errors:\n  " + "\n  ".join(found) if found else ""


def _first(texts: Iterable[str]) -> list[str]:
    found: dict[str, None] = {}
    for text in texts:
        found[text] = None
        if len(found) == _MAX_PROBLEMS:
            break
    return list(found)


def _duplicate(path: str) -> str:
    return f'duplicate field "{path}"'


def _unknown(path: str) -> str:
    return f'unknown field "{path}"'


_encode = msgspec.json.Encoder().encode


class _DuplicateFound(Exception):
    pass


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _DuplicateFound


# Nearly all bodies have no duplicates, so the paths of these are searched only when there are some.
_check_unique = json.JSONDecoder(object_pairs_hook=_refuse_duplicates).decode


class _Members(list[tuple[str, Any]]):
    """The members of a JSON object in their order, with repeated ones."""


def _decode_members(body: bytes) -> Any:
    return json.loads(body.decode(errors="replace"), object_pairs_hook=_Members)


def _find_problems(value: Any, path: str, unknown: frozenset[str]) -> Iterator[tuple[bool, str]]:
    """Yield the paths of unknown (True) and of duplicate (False) fields."""
    if isinstance(value, _Members):
        seen: set[str] = set()
        for key, child in value:
            where = f"{path}.{key}" if path else key
            if where in unknown:
                yield True, where
                continue
            if key in seen:
                yield False, where
            seen.add(key)
            yield from _find_problems(child, where, unknown)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _find_problems(child, f"{path}[{index}]", unknown)

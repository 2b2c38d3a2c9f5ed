"""Rendering of documents with a long list, piece by piece.

Items are encoded JSON: stored objects or rows of a table. The concatenated pieces are what an encoder would return for
the whole document. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from bridgehead.apiserver.resource import JsonObject
from bridgehead.yaml_dumper import dump_yaml

_INDENT = b"    "


def json_document(head: JsonObject, key: str, items: Iterable[bytes], *, indented: bool = False) -> Iterator[bytes]:
    """Yield `head` with `items` as its last field `key`, as JSON; `indented` by 2 for people."""
    opening = msgspec.json.encode(head)[:-1] + b",%b:[" % msgspec.json.encode(key)
    if not indented:
        yield opening
        yield from _separated(items, b",")
        yield b"]}"
        return
    lines = msgspec.json.format(opening + b"0]}", indent=2)
    opening, _, closing = lines.rpartition(b"\n    0\n  ]")
    between, is_empty = b"\n" + _INDENT, True
    yield opening
    for item in items:
        # All line breaks are between tokens: strings in JSON contain none.
        yield between + msgspec.json.format(item, indent=2).replace(b"\n", b"\n" + _INDENT)
        between, is_empty = b",\n" + _INDENT, False
    yield (b"]" if is_empty else b"\n  ]") + closing


def _separated(items: Iterable[bytes], separator: bytes) -> Iterator[bytes]:
    rest = iter(items)
    yield from islice(rest, 1)
    yield from (separator + item for item in rest)


def yaml_document(head: JsonObject, key: str, items: Iterable[bytes]) -> Iterator[bytes]:
    """Yield `head` with `items` as the field `key`, as YAML with sorted keys."""
    for name in sorted([*head, key]):
        if name != key:
            yield dump_yaml({name: head[name]})
            continue
        is_empty = True
        for item in items:
            if is_empty:
                yield f"{key}:\n".encode()
            is_empty = False
            yield dump_yaml([msgspec.json.decode(item)])
        if is_empty:
            yield f"{key}: []\n".encode()

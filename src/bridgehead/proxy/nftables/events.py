"""What somebody's transactions did to our tables, in the words `render.py` uses: reads the kernel's news of them. Pure.

`mode.py` calls it to mend exactly what was edited, whatever the size of the rest; `network/ruleset_events.py` hears the
news. The bytes are those of linux/netfilter/nf_tables.h: a key, or a value, is its fields one after the other, each
filled up to four bytes; which fields those are, the declarations in `chains.py` say.
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from bridgehead.network.netlink import PROTOCOL_NAMES, as_text, attributes, each_attribute
from bridgehead.network.ruleset_events import Touched
from bridgehead.proxy.addresses import Family

from .chains import CLIENTS, containers, priority_words
from .render import EVERYTHING
from .transaction import Container

_FAMILIES: Final[Mapping[str, Family]] = {"ip": 4, "ip6": 6}
_ANONYMOUS: Final = "__"  # sets and maps inside rules are called so, and come and go with them
_KEY, _DATA, _FLAGS, _COMMENT = 1, 2, 3, 6  # NFTA_SET_ELEM_
_CATCHALL = b"\0\0\0\2"
_VALUE, _VERDICT = 1, 2  # NFTA_DATA_
_VERDICT_CODE, _VERDICT_CHAIN = 1, 2
_VERDICTS: Final = {0: "drop", 1: "accept", -1: "continue", -3: "jump", -4: "goto", -5: "return"}  # linux/netfilter.h

_declaration = re.compile(r"(?:set|map) \S+ { typeof (?P<key>[^;:]*?)(?: : (?P<value>[^;:]*?))?;")


@dataclass
class Edits:
    """`elements`: container -> key -> the value that is there now, None where there is no element.

    `chains`: whether those, of which anything was changed, are there now.
    """

    elements: dict[Container, dict[str, str | None]] = field(default_factory=dict)
    chains: dict[tuple[Family, str], bool] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.elements or self.chains)


def parse_edits(news: Iterable[Touched], table: str, families: Collection[Family]) -> Edits | None:
    """What the news, in their order, come to. None: more than elements and chains, or something not understood."""
    edits = Edits()
    for touched in news:
        family = _FAMILIES.get(touched.family)
        if touched.table != table or family is None or family not in families:
            continue
        if touched.chain:
            edits.chains[family, touched.chain] = not touched.is_gone
        elif touched.container.startswith(_ANONYMOUS):
            continue
        elif touched.elements:
            if touched.container == CLIENTS:
                continue  # the kernel's own, which nobody can tell how they should be
            layout = _layouts(family).get(touched.container)
            if layout is None or not _note(edits, Container(family, touched.container), layout, touched):
                return None
        else:
            return None
    return edits


class _Layout(NamedTuple):
    """The fields of a container's keys, and of its values: () for a verdict, None in a set."""

    key: tuple[str, ...]
    value: tuple[str, ...] | None


@lru_cache(maxsize=2)
def _layouts(family: Family) -> dict[str, _Layout]:
    found = {}
    for name, declaration in containers(family).items():
        if (words := _declaration.match(declaration)) is not None:
            value = words["value"]
            is_verdict = value == "verdict"
            fields = None if value is None else () if is_verdict else tuple(value.split(" . "))
            found[name] = _Layout(tuple(words["key"].split(" . ")), fields)
    return found


def _note(edits: Edits, container: Container, layout: _Layout, touched: Touched) -> bool:
    """False: it was not understood."""
    for _, element in each_attribute(touched.elements):
        found = attributes(element)
        flags = found.pop(_FLAGS, None)
        if flags not in (None, _CATCHALL) or found.keys() - {_KEY, _DATA, _COMMENT}:
            return False
        key = _words(attributes(found.get(_KEY, b"")).get(_VALUE, b""), layout.key) if flags is None else EVERYTHING
        if key is None:
            return False
        value: str | None = None
        if not touched.is_gone:
            value = _value(attributes(found.get(_DATA, b"")), layout.value)
            if value is None:
                return False
        edits.elements.setdefault(container, {})[key] = value
    return True


def _value(data: Mapping[int, bytes], fields: tuple[str, ...] | None) -> str | None:
    if fields is None:
        return ""
    if fields:
        return _words(data.get(_VALUE, b""), fields)
    verdict = attributes(data.get(_VERDICT, b""))
    code = verdict.get(_VERDICT_CODE, b"")
    word = _VERDICTS.get(struct.unpack("!i", code)[0]) if len(code) == 4 else None
    chain = as_text(verdict.get(_VERDICT_CHAIN, b""))
    return f"{word} {chain}" if word and chain else word


def _words(data: bytes, fields: tuple[str, ...]) -> str | None:
    words = []
    for name in fields:
        if name.startswith("ip6 "):
            size, word = 16, socket.inet_ntop(socket.AF_INET6, data[:16]) if len(data) >= 16 else ""
        elif name.startswith("ip "):
            size, word = 4, socket.inet_ntop(socket.AF_INET, data[:4]) if len(data) >= 4 else ""
        elif name == "meta l4proto":
            size, word = 4, PROTOCOL_NAMES.get(data[0], str(data[0])) if data else ""
        elif name.endswith(" dport"):
            size, word = 4, str(int.from_bytes(data[:2], "big"))
        elif name == "meta priority":
            size, word = 4, priority_words(struct.unpack_from("=I", data)[0]) if len(data) >= 4 else ""
        elif name.startswith("numgen "):
            size, word = 4, str(struct.unpack_from("=I", data)[0]) if len(data) >= 4 else ""
        else:
            return None
        if len(data) < size:
            return None
        words.append(word)
        data = data[size:]
    return None if data else " . ".join(words)

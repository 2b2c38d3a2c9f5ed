"""The kernel's elements and chains, read from the output of `nft --json list table`.

Pure: no I/O, no clock, no randomness.

`mode.py` calls it to find out what somebody else changed, and to start from what an earlier run left behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from bridgehead.proxy.errors import NotUnderstood


@dataclass
class Table:
    """One table.

    `elements`: container -> key -> value ("" in a set), without comments. `chains`: the names of all chains. `others`:
    the kinds of sets, maps and objects that are not ours, by name.
    """

    elements: dict[str, dict[str, str]] = field(default_factory=dict)
    chains: set[str] = field(default_factory=set)
    others: dict[str, str] = field(default_factory=dict)


def parse_table(listing: bytes, ours: frozenset[str]) -> Table:
    """Parse the listing of one table. `ours` are the containers whose elements are wanted. Raises NotUnderstood."""
    table = Table()
    try:
        items = msgspec.json.decode(listing)["nftables"]
        for item in items:
            for kind, content in item.items():
                if kind == "chain":
                    table.chains.add(content["name"])
                elif kind in ("set", "map"):
                    if content["name"] in ours:
                        table.elements[content["name"]] = dict(map(_element, content.get("elem", ())))
                    else:
                        table.others[content["name"]] = kind
                elif kind not in ("metainfo", "table", "rule", "flowtable", "element"):
                    table.others[content["name"]] = kind
    except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise NotUnderstood(f"cannot read nft's listing: {error!r}") from error
    return table


def _element(element: Any) -> tuple[str, str]:
    if isinstance(element, list):
        key, value = element
        return _text(key), _text(value)
    return _text(element), ""


def _text(value: Any) -> str:
    if isinstance(value, dict):
        if "elem" in value:
            return _text(value["elem"]["val"])
        if "concat" in value:
            return " . ".join(map(_text, value["concat"]))
        if "goto" in value:
            return f"goto {value['goto']['target']}"
        if len(value) == 1:
            (verdict, nothing), *_ = value.items()
            if nothing is None:
                return str(verdict)
        raise NotUnderstood(f"unknown element {value!r}")
    return str(value)

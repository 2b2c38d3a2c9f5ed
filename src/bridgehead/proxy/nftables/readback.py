"""What the kernel has, in the words `render.py` uses: reads the output of `nft --json list table`. Pure.

`mode.py` calls it to find out what somebody else changed, and to begin from whatever an earlier run left behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from bridgehead.proxy.errors import NotUnderstood


@dataclass
class Table:
    """One table. `elements`: container -> key -> value ("" in a set), comments left out.

    `chains` are all chains' names; `others` are the sets, maps and objects that are not ours, by name, with their kind.
    """

    elements: dict[str, dict[str, str]] = field(default_factory=dict)
    chains: set[str] = field(default_factory=set)
    others: dict[str, str] = field(default_factory=dict)


def parse_table(listing: bytes, ours: frozenset[str]) -> Table:
    """Parse the listing of one table; `ours` are the containers whose elements matter. Raises NotUnderstood."""
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
        return _words(key), _words(value)
    return _words(element), ""


def _words(value: Any) -> str:
    if isinstance(value, dict):
        if "elem" in value:
            return _words(value["elem"]["val"])
        if "concat" in value:
            return " . ".join(map(_words, value["concat"]))
        if "goto" in value:
            return f"goto {value['goto']['target']}"
        if len(value) == 1:
            (verdict, nothing), *_ = value.items()
            if nothing is None:
                return str(verdict)
        raise NotUnderstood(f"unknown element {value!r}")
    return str(value)

"""Tables of nftables, from `nft --json list ruleset`. Pure: no I/O, no clock, no randomness."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from bridgehead.proxy.address_texts import Family

from .nft_text import counter_of, expression, rule_text, targets_of

_FAMILIES: dict[str, Family] = {"ip": 4, "ip6": 6}


class Rule(NamedTuple):
    text: str
    targets: tuple[str, ...] = ()  # chains
    counter: tuple[int, int] | None = None  # packets, bytes


class Element(NamedTuple):
    """`key` and `value` without options; `text`: as nft prints the element."""

    key: str
    value: str
    comment: str
    text: str


@dataclass
class NftTable:
    """`containers`: sets and maps, and their elements, by name. `kinds`: `set` or `map`. `hooks`: of base chains."""

    family: Family
    name: str
    chains: dict[str, list[Rule]] = field(default_factory=dict)
    hooks: dict[str, str] = field(default_factory=dict)
    containers: dict[str, list[Element]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)

    def chain(self, name: str) -> str:
        """Return the text that `Entry.container` has for a chain."""
        return f"table {'ip6' if self.family == 6 else 'ip'} {self.name}, chain {name}"

    def reachable(self, name: str) -> list[str]:
        """Return a chain and all chains that it leads to, in order; [] for a verdict, which is no chain."""
        found: dict[str, None] = {}
        waiting = [name]
        while waiting:
            name = waiting.pop(0)
            if name in found or name not in self.chains:
                continue
            found[name] = None
            waiting += (target for rule in self.chains[name] for target in rule.targets)
        return list(found)

    def container(self, name: str) -> str:
        """Return the text that `Entry.container` has for a set or map."""
        return f"table {'ip6' if self.family == 6 else 'ip'} {self.name}, {self.kinds.get(name, 'map')} {name}"


def parse_tables(listing: bytes, names: Collection[str]) -> tuple[list[NftTable], list[str]]:
    """Return the tables with these names, and the problems: parts of the listing that have an unknown form."""
    tables: dict[tuple[Family, str], NftTable] = {}
    problems: list[str] = []
    if not listing:
        return [], []
    try:
        items = msgspec.json.decode(listing)["nftables"]
    except (msgspec.DecodeError, KeyError, TypeError, RecursionError) as error:
        return [], [f"the listing of nft cannot be read: {error}"]
    for item in items if isinstance(items, list) else ():
        if not isinstance(item, dict):
            continue
        for kind, content in item.items():
            try:
                _add(tables, names, kind, content)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError):
                problems.append(f"a {kind} in the listing of nft has an unknown form")
    return list(tables.values()), sorted(set(problems))


def _add(tables: dict[tuple[Family, str], NftTable], names: Collection[str], kind: str, content: Any) -> None:
    if kind == "table":
        family, name = _FAMILIES.get(content["family"]), content["name"]
        if family is not None and name in names:
            tables.setdefault((family, name), NftTable(family, name))
        return
    if kind not in ("chain", "rule", "map", "set"):
        return
    family = _FAMILIES.get(content["family"])
    table = tables.get((family, content["table"])) if family is not None else None
    if table is None:
        return
    if kind == "chain":
        table.chains.setdefault(content["name"], [])
        if content.get("hook"):
            table.hooks[content["name"]] = str(content["hook"])
    elif kind == "rule":
        rule = Rule(rule_text(content), tuple(targets_of(content)), counter_of(content))
        table.chains.setdefault(content["chain"], []).append(rule)
    else:
        name = content["name"]
        table.kinds[name] = kind
        table.containers[name] = [_element(one) for one in content.get("elem") or ()]


def _element(element: Any) -> Element:
    key, value = element if isinstance(element, list) else (element, None)
    text = bare = expression(key)
    comment = ""
    if isinstance(key, dict) and "elem" in key:
        comment, bare = str(key["elem"].get("comment") or ""), expression(key["elem"]["val"])
    shown = expression(value) if value is not None else ""
    return Element(bare, shown, comment, f"{text} : {shown}" if value is not None else text)

"""The texts of rules by their handles, for the events of a traced packet.

`nft -a` prints handles, but rules of iptables-nft without their comments; iptables-save prints these rules as their
users know them, in the same order.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from bridgehead.insight.findings import printable

ChainName = tuple[str, str, str]  # family, table, chain
RuleTexts = Mapping[tuple[str, str, int], str]  # by family, table and handle

_TABLE = re.compile(r"table (\w+) (\S+) \{")
_CHAIN = re.compile(r"chain (\S+) \{")
_HANDLE = re.compile(r"^(.*) # handle (\d+)$")
_COUNTER = re.compile(r"counter packets \d+ bytes \d+ ?")
_IPTABLES_TABLES = ("raw", "mangle", "nat", "filter", "security")
_LONGEST = 400


def parse_listing(listing: str, saved: Mapping[str, str] = {}) -> RuleTexts:
    """Return the rules of a listing by `nft -a`. `saved`: what iptables-save printed, by nft's family (ip, ip6)."""
    by_chain: dict[ChainName, list[tuple[int, str]]] = {}
    family = table = chain = ""
    for line in listing.splitlines():
        text = line.strip()
        if found := _TABLE.match(text):
            family, table = found.groups()
        elif found := _CHAIN.match(text):
            chain = found[1]
        elif text == "}" or text.startswith(("map ", "set ", "flowtable ")):
            chain = ""
        elif (found := _HANDLE.match(text)) and family and chain and not text.startswith(("type ", "policy ")):
            by_chain.setdefault((family, table, chain), []).append((int(found[2]), found[1]))
    users = {one: _saved_rules(text) for one, text in saved.items()}
    texts: dict[tuple[str, str, int], str] = {}
    for (family, table, chain), rules in by_chain.items():
        theirs = users.get(family, {}).get((table, chain), []) if table in _IPTABLES_TABLES else []
        is_same = len(theirs) == len(rules)
        for index, (handle, text) in enumerate(rules):
            shown = f"-A {chain} {theirs[index]}" if is_same else " ".join(_COUNTER.sub("", text).split())
            texts[family, table, handle] = printable(shown, _LONGEST)
    return texts


def _saved_rules(text: str) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    table = ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:].strip()
        elif line.startswith(("-A ", "[")):
            # With counters, a line begins with [packets:bytes].
            _, _, rest = line.partition("-A ")
            chain, _, rule = rest.partition(" ")
            found.setdefault((table, chain), []).append(rule)
    return found

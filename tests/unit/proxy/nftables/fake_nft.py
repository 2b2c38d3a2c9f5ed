"""A kernel that takes the nft text of `proxy/nftables` and refuses what the real one refuses.

Understands exactly what `render.py` writes. The integration tests let the real kernel sit the same exam
(`test_proxy_nftables.py`: its maps equal the Frontends after random changes).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bridgehead.proxy.nftables.readback import Table

Family = str


class Refused(Exception):
    """A rejection by the kernel, with the rejected command."""


class FakeKernel:
    """`tables`: family word -> the table as a read-back shows it, with its chains' rules beside."""

    def __init__(self) -> None:
        self.tables: dict[Family, Table] = {}
        self.rules: dict[Family, dict[str, list[str]]] = {}

    def apply(self, text: str) -> None:
        """Apply statement by statement; after Refused the state is undefined, as no test goes on then."""
        for statement in _statements(text):
            verb, kind, rest = statement.split(" ", 2)
            getattr(self, f"_{verb}_{kind}")(*rest.split(" ", 2))

    def table(self, family: int) -> Table:
        return self.tables["ip6" if family == 6 else "ip"]

    def read(self) -> dict[int, Table]:
        """Return the existing tables by family, as a read-back does."""
        return {6 if family == "ip6" else 4: table for family, table in self.tables.items()}

    def _add_table(self, family: Family, name: str) -> None:
        self.tables.setdefault(family, Table())
        self.rules.setdefault(family, {})

    def _delete_table(self, family: Family, name: str) -> None:
        if family not in self.tables:
            raise Refused(f"delete table {family}: No such file or directory")
        del self.tables[family], self.rules[family]

    def _add_map(self, family: Family, table: str, rest: str) -> None:
        self._add_container(family, "map", rest)

    def _add_set(self, family: Family, table: str, rest: str) -> None:
        self._add_container(family, "set", rest)

    def _add_container(self, family: Family, kind: str, rest: str) -> None:
        name = rest.split()[0]
        if "dynamic" in rest:
            self.tables[family].others[name] = kind
        else:
            self.tables[family].elements.setdefault(name, {})

    def _delete_map(self, family: Family, table: str, name: str) -> None:
        content = self.tables[family]
        if name not in content.others.keys() | content.elements.keys():
            raise Refused(f"delete {name}: No such file or directory")
        if any(f"@{name} " in f"{rule} " for rules in self.rules[family].values() for rule in rules):
            raise Refused(f"delete {name}: Device or resource busy")
        content.others.pop(name, None)
        content.elements.pop(name, None)

    _delete_set = _delete_map

    def _add_chain(self, family: Family, table: str, rest: str) -> None:
        self.tables[family].chains.add(rest.split()[0])
        self.rules[family].setdefault(rest.split()[0], [])

    def _flush_chain(self, family: Family, table: str, name: str) -> None:
        if name not in self.rules[family]:
            raise Refused(f"flush chain {name}: No such file or directory")
        self.rules[family][name] = []

    def _delete_chain(self, family: Family, table: str, name: str) -> None:
        if name not in self.rules[family]:
            raise Refused(f"delete chain {name}: No such file or directory")
        in_rules = [rule for rules in self.rules[family].values() for rule in rules]
        in_elements = [value for elements in self.tables[family].elements.values() for value in elements.values()]
        if any(re.search(rf"(goto|jump) {re.escape(name)}($|[ ,])", text) for text in (*in_rules, *in_elements)):
            raise Refused(f"delete chain {name}: Device or resource busy")
        del self.rules[family][name]
        self.tables[family].chains.remove(name)

    def _add_rule(self, family: Family, table: str, rest: str) -> None:
        name, rule = rest.split(" ", 1)
        self._check_goto(family, rule)
        for container in re.findall(r"@([a-z0-9-]+)", rule):
            if container not in self.tables[family].elements.keys() | self.tables[family].others.keys():
                raise Refused(f"{rule}: no set {container}")
        self.rules[family][name].append(rule)

    def _add_element(self, family: Family, table: str, rest: str) -> None:
        container, elements = self._elements(family, rest)
        for element in elements:
            key, _, value = element.partition(" : ")
            key = re.sub(r' comment "[^"]*"$', "", key)
            self._check_goto(family, value)
            if container.setdefault(key, value) != value:
                raise Refused(f"add element {element}: File exists")

    def _delete_element(self, family: Family, table: str, rest: str) -> None:
        container, elements = self._elements(family, rest)
        for key in elements:
            if container.pop(key, None) is None:
                raise Refused(f"delete element {key}: No such file or directory")

    def _elements(self, family: Family, rest: str) -> tuple[dict[str, str], list[str]]:
        name, listed = rest.split(" ", 1)
        return self.tables[family].elements[name], listed.removeprefix("{ ").removesuffix(" }").split(", ")

    def _check_goto(self, family: Family, text: str) -> None:
        for name in re.findall(r"(?:goto|jump) ([^\s,]+)", text):
            if name not in self.rules[family]:
                raise Refused(f"{text}: No such file or directory")


def _statements(text: str) -> Iterator[str]:
    """One line each, but for element lists, which end with their brace."""
    for match in re.finditer(r"(?:add|delete) element [^{]*\{[^}]*\}|[^\n]+", text):
        yield " ".join(match.group().split())

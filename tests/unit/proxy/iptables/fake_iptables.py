"""iptables-restore --noflush in memory: refuses what the real one refuses, and prints what iptables-save prints."""

from __future__ import annotations

from bridgehead.proxy.iptables.readback import Table, as_printed

BUILT_IN = {
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
    "mangle": ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"),
}
TARGETS = {"ACCEPT", "DROP", "REJECT", "RETURN", "MARK", "CONNMARK", "SET", "MASQUERADE", "DNAT"}


class FakeIptables:
    """One family's tables. `restore` raises ValueError with the line, and then that table is as before."""

    def __init__(self) -> None:
        self.tables = {name: Table({chain: [] for chain in chains}) for name, chains in BUILT_IN.items()}

    def restore(self, text: str) -> None:
        name, chains = "", {}
        for line in text.splitlines():
            if line.startswith("*"):
                name = line[1:]
                chains = {chain: list(rules) for chain, rules in self.tables[name].chains.items()}
            elif line == "COMMIT":
                self._check(chains)
                self.tables[name] = Table(chains)
            else:
                self._line(chains, name, line)

    def _line(self, chains: dict[str, list[str]], table: str, line: str) -> None:
        verb, _, rest = line.partition(" ")
        chain, _, rule = rest.partition(" ")
        (printed,) = as_printed([rule])
        if line.startswith(":"):
            chains[line[1:].partition(" ")[0]] = []
        elif verb in ("-A", "-I", "-D") and chain not in chains:
            raise ValueError(f"No chain: {line}")
        elif verb == "-A":
            chains[chain].append(printed)
        elif verb == "-I":
            number, _, numbered = rule.partition(" ")
            (printed,) = as_printed([numbered if number.isdigit() else rule])
            position = int(number) - 1 if number.isdigit() else 0
            if not 0 <= position <= len(chains[chain]):
                raise ValueError(f"Index of insertion too big: {line}")
            chains[chain].insert(position, printed)
        elif verb == "-D" and rule.isdigit() and 1 <= int(rule) <= len(chains[chain]):
            del chains[chain][int(rule) - 1]
        elif verb == "-D" and printed in chains[chain]:
            chains[chain].remove(printed)
        elif verb == "-X" and chain in chains and not chains[chain] and chain not in BUILT_IN[table]:
            del chains[chain]
            if any(target_of(rule) == chain for rules in chains.values() for rule in rules):
                raise ValueError(f"Device or resource busy: {line}")
        else:
            raise ValueError(f"failed: {line}")

    def _check(self, chains: dict[str, list[str]]) -> None:
        for rules in chains.values():
            for rule in rules:
                target = target_of(rule)
                if target and target not in chains and target not in TARGETS:
                    raise ValueError(f"Couldn't load target: {rule}")

    def save(self) -> str:
        """Every table, chain and rule, sorted by chain as the nft variant does."""
        lines = []
        for name, table in self.tables.items():
            lines.append(f"*{name}")
            lines += [f":{chain} {'ACCEPT' if chain in BUILT_IN[name] else '-'} [0:0]" for chain in table.chains]
            lines += [f"-A {chain} {rule}" for chain in sorted(table.chains) for rule in table.chains[chain]]
            lines.append("COMMIT")
        return "".join(f"{line}\n" for line in lines)


def target_of(rule: str) -> str:
    return rule.rpartition("-j ")[2].partition(" ")[0] if "-j " in rule else ""

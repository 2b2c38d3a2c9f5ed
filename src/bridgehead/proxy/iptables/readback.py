"""The kernel's chains and rules, read from the output of iptables-save.

Pure: no I/O, no clock, no randomness.

`mode.py` calls it to find out what somebody else changed, and to start from what an earlier run, or kube-proxy, left
behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from bridgehead.proxy.address_texts import EVERYWHERE
from bridgehead.proxy.errors import NotUnderstood

UNKNOWN_FORMAT = "this iptables-save prints rules in an unknown format; only the number of rules is compared"


@dataclass
class Table:
    """One table of one family: chain -> its rules without `-A CHAIN`, in order. Includes built-in chains."""

    chains: dict[str, list[str]] = field(default_factory=dict)


def parse_listing(listing: bytes) -> dict[str, Table]:
    """Return the tables by name, from the output of iptables-save or ip6tables-save. Raises NotUnderstood."""
    tables: dict[str, Table] = {}
    table: Table | None = None
    for line in listing.decode(errors="replace").splitlines():
        match line[:1]:
            case "" | "#":
                continue
            case "*":
                table = tables.setdefault(line[1:].strip(), Table())
            case ":" if table is not None:
                table.chains.setdefault(line[1:].partition(" ")[0], [])
            case "-" if table is not None and line.startswith("-A "):
                chain, _, rule = line[3:].partition(" ")
                if chain not in table.chains:
                    raise NotUnderstood(f"iptables-save printed a rule of an unknown chain: {line[:200]!r}")
                table.chains[chain].append(rule)
            case "C" if line.startswith("COMMIT"):
                table = None
            case _:
                raise NotUnderstood(f"iptables-save printed {line[:200]!r}")
    return tables


_probability = re.compile(r"(?<= --probability )[0-9.]+")
_ANY_SOURCE = tuple(f"-s {everywhere} " for everywhere in EVERYWHERE.values())


def as_printed(rules: Iterable[str]) -> list[str]:
    """Return rules as iptables-save prints them.

    The kernel keeps a probability as a fraction of 2^31, and a source of any address is not printed.
    """
    return [
        _probability.sub(lambda number: f"{round(float(number[0]) * 2**31) / 2**31:.11f}", rule)
        if " --probability " in rule
        else rule.partition("/0 ")[2]
        if rule.startswith(_ANY_SOURCE)
        else rule
        for rule in rules
    ]

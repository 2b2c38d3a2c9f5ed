"""Reports of clients: failed connections, and how many were made. `workload/prober.py` writes the lines.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class ClientKind(StrEnum):
    """Activities of a client. Each connection is new but for ESTABLISHED, which sends requests on one connection."""

    CLUSTER_IP = "cluster-ip"
    NODE_PORT = "node-port"
    ESTABLISHED = "established"
    DNS = "dns"


@dataclass(frozen=True)
class Connection:
    """A connection that failed, or the lookup of a name.

    `source` is the client's location and `entry` the node whose rules translate the Service's address. `nodes` have the
    Service's pods. An ESTABLISHED connection starts with its last answered request.
    """

    client: str
    source: str
    kind: ClientKind
    service: str
    entry: str
    nodes: frozenset[str]
    start: float
    end: float
    problem: str

    @property
    def is_misled(self) -> bool:
        """Whether a pod of another Service answered."""
        return self.problem.startswith("answered by")

    def __str__(self) -> str:
        return f"{self.client} -> {self.service} ({self.kind} by {self.entry}): {self.problem}"


def read_lines(lines: Iterable[str]) -> tuple[Counter[ClientKind], list[Connection]]:
    """The number of connections by kind, and those that failed. A last line that is not whole is left out."""
    made: Counter[ClientKind] = Counter()
    failed = []
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if "made" in record:
            made.update({ClientKind(kind): count for kind, count in record["made"].items()})
            continue
        record["kind"], record["nodes"] = ClientKind(record["kind"]), frozenset(record["nodes"])
        failed.append(Connection(**record))
    return made, failed

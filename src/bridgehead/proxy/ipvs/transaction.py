"""One change of the ipvs mode's state in the kernel, as a value and as text. Pure: no I/O, no clock, no randomness.

`render.py` returns transactions, `apply.py` carries them out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from bridgehead.network.ipset import SetType
from bridgehead.network.ipvs import Destination, Scheduling, Server
from bridgehead.objects.addresses import join_host_port
from bridgehead.proxy.iptables.transaction import Transaction as RulesTransaction

DUMMY = "kube-ipvs0"


class Retired(NamedTuple):
    """A real server without new connections. `gracefully`: it is removed when its connections have ended."""

    server: Server
    destination: Destination
    gracefully: bool


@dataclass
class Transaction:
    """One change of the kernel. The fields are in the order in which they are carried out.

    No packet reaches an incomplete virtual server: real servers are added before the address, and removed after it.
    `takes_over`: the iptables mode still serves, so its rules are replaced last.
    """

    replaced: list[str] = field(default_factory=list)  # sets that exist with another type
    created: dict[str, SetType] = field(default_factory=dict)
    added: dict[str, set[str]] = field(default_factory=dict)
    rules: RulesTransaction = field(default_factory=RulesTransaction)
    servers: dict[Server, Scheduling] = field(default_factory=dict)  # added or changed
    destinations: list[tuple[Server, Destination]] = field(default_factory=list)
    bound: list[str] = field(default_factory=list)
    unbound: list[str] = field(default_factory=list)
    retired: list[Retired] = field(default_factory=list)
    closing: list[Server] = field(default_factory=list)  # are removed after their last real server
    gone: list[Server] = field(default_factory=list)
    removed: dict[str, set[str]] = field(default_factory=dict)
    limited: list[str] = field(default_factory=list)  # sets that get the usual limit of elements
    takes_over: bool = False

    def __bool__(self) -> bool:
        return self.size() > 0

    def size(self) -> int:
        """Return the number of objects it changes."""
        return (
            sum(map(len, (self.replaced, self.created, self.servers, self.destinations, self.bound, self.unbound,
                          self.retired, self.gone, self.limited)))
            + sum(map(len, (*self.added.values(), *self.removed.values())))
            + self.rules.size()
        )  # fmt: skip


def normalized(transaction: Transaction) -> Transaction:
    """Drop changes that undo each other: removals come last, and the kernel finds an element without its mark."""
    bound, unbound = set(transaction.bound), set(transaction.unbound)
    transaction.bound = sorted(bound - unbound)
    transaction.unbound = sorted(unbound - bound)
    for name, elements in list(transaction.removed.items()):
        added = transaction.added.get(name, set()) - elements
        keys = {element.partition(" ")[0] for element in added}
        kept = elements & transaction.added.get(name, set())
        removed = {element for element in elements - kept if element.partition(" ")[0] not in keys}
        _set_or_drop(transaction.added, name, added)
        _set_or_drop(transaction.removed, name, removed)
    return transaction


def _set_or_drop(found: dict[str, set[str]], name: str, elements: set[str]) -> None:
    if elements:
        found[name] = elements
    else:
        found.pop(name, None)


def texts(transaction: Transaction) -> Iterator[str]:
    """Yield the transaction as input for ipset, iptables, ipvsadm and ip, for people to read."""
    yield "# ipset restore\n"
    for name, kind in transaction.created.items():
        options = ""
        if kind.kind.startswith("hash:"):
            options = f" family {'inet6' if kind.family == 6 else 'inet'}{' skbinfo' if kind.has_marks else ''}"
        else:
            options = " range 0-65535"
        yield f"create {name} {kind.kind}{options}\n"
    for name in sorted(transaction.added):
        yield from (f"add {name} {element}\n" for element in sorted(transaction.added[name]))
    for family, text in transaction.rules.texts().items():
        yield f"# ip{'6' if family == 6 else ''}tables-restore --noflush\n{text}"
    yield "# ipvsadm --restore\n"
    by_server: dict[Server, list[Destination]] = {}
    for server, destination in transaction.destinations:
        by_server.setdefault(server, []).append(destination)
    for server, scheduling in sorted(transaction.servers.items()):
        option = _as_option(server)
        persistent = f" -p {scheduling.persistent}" if scheduling.persistent else ""
        hashed = f" -b {scheduling.scheduler}-port" if scheduling.flags else ""
        yield f"-A {option} -s {scheduling.scheduler}{persistent}{hashed}\n"
        for address, number in by_server.get(server, ()):
            yield f"-a {option} -r {join_host_port(address, number)} -m -w 1\n"
    yield "# ip -batch -\n"
    yield f"link add {DUMMY} type dummy\n"
    yield from (f"address add {address} dev {DUMMY}\n" for address in transaction.bound)


def _as_option(server: Server) -> str:
    if server.mark:
        return f"-f {server.mark}{' -6' if server.family == 6 else ''}"
    option = {"tcp": "-t", "udp": "-u", "sctp": "--sctp-service"}[server.protocol]
    return f"{option} {join_host_port(server.address, server.port)}"

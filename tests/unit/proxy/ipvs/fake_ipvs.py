"""A kernel's IPVS, IP sets, dummy interface and iptables, as the ipvs mode uses them: obeys, refuses, reads back."""

from __future__ import annotations

from bridgehead.network.ipset import SetType
from bridgehead.network.ipvs import Destination, Load, Scheduling, Server
from bridgehead.proxy.ipvs.readback import KernelState
from bridgehead.proxy.ipvs.transaction import Transaction
from tests.unit.proxy.iptables.fake_iptables import FakeIptables


class FakeIpvs:
    def __init__(self) -> None:
        self.servers: dict[Server, tuple[Scheduling, dict[Destination, Load]]] = {}
        self.sets: dict[str, tuple[SetType, dict[str, str]]] = {}  # elements by what the kernel knows them by
        self.bound: set[str] = set()
        self.iptables = {4: FakeIptables(), 6: FakeIptables()}
        self.connections: dict[tuple[Server, Destination], int] = {}

    def do(self, transaction: Transaction) -> None:
        """Apply the fields in their order, as the real one does; changes that the kernel would refuse raise an
        error."""
        for name in transaction.replaced:
            del self.sets[name]
        for name, kind in transaction.created.items():
            if name in self.sets:
                raise FileExistsError(name)
            if len(name) > 31:
                raise ValueError(f"{name}: too long")
            self.sets[name] = (kind, {})
        for name, elements in transaction.added.items():
            for element in elements:
                key, _, mark = element.partition(" ")
                if bool(mark) != self.sets[name][0].has_marks:
                    raise ValueError(f"{name}: {element}")
                self.sets[name][1][key] = element
        for family, text in transaction.rules.texts().items():
            self.iptables[family].restore(text)
        for server, scheduling in transaction.servers.items():
            self.servers[server] = (scheduling, self.servers.get(server, (None, {}))[1])
        for server, destination in transaction.destinations:
            self.servers[server][1][destination] = Load(1, 0)
        self.bound |= set(transaction.bound)
        self.bound -= set(transaction.unbound)
        for server, destination, gracefully in transaction.retired:
            if gracefully:
                self.servers[server][1][destination] = Load(0, 1)
            else:
                del self.servers[server][1][destination]
        for server in transaction.gone:
            self.servers.pop(server, None)
        for name, elements in transaction.removed.items():
            for element in elements:
                del self.sets[name][1][element.partition(" ")[0]]

    def drain(self) -> None:
        """All connections end, and the real servers that waited for it are taken away, with what is empty then."""
        for server, (_, loads) in list(self.servers.items()):
            for destination, load in list(loads.items()):
                if not load.weight:
                    del loads[destination]
            if not loads:
                del self.servers[server]

    def state(self) -> KernelState:
        """Return the state as it is read back."""
        return KernelState(
            servers={server: (how, dict(loads)) for server, (how, loads) in self.servers.items()},
            sets={name: (kind, set(elements.values())) for name, (kind, elements) in self.sets.items()},
            bound=set(self.bound),
            tables={family: tables.tables for family, tables in self.iptables.items()},
        )

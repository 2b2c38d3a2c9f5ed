"""Rendering of Frontends to transactions of virtual servers, IP sets and addresses.

Pure: no I/O, no clock, no randomness. `Renderer.change` returns the transaction from the old Frontends to the new ones;
it looks only at Service ports that changed. `Renderer.full` compares the wanted state with the kernel's
(`KernelState`). `mode.py` calls both, and `apply.py` carries out the transactions.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping

from bridgehead.network.ipset import USUAL_LIMIT
from bridgehead.network.ipvs import Destination, Scheduling, Server
from bridgehead.proxy.address_texts import Family, family_of
from bridgehead.proxy.config import IpvsOptions
from bridgehead.proxy.frontend_table import Change
from bridgehead.proxy.frontends import Frontend, FrontendKey
from bridgehead.proxy.iptables.chains import Chain, Rules
from bridgehead.proxy.iptables.ports import PortKey, port_of
from bridgehead.proxy.iptables.render import exemption as exempting_rules
from bridgehead.proxy.mode import Settings

from . import chains, sets
from .marks import Marks
from .ports import NOTHING, Element, Node, PortState, needs_mark, render_port
from .readback import KernelState, Ownership, known_marks
from .transaction import Retired, Transaction, normalized


class Renderer:
    """The wanted state of the kernel, and the transactions that lead to it."""

    def __init__(self, settings: Settings, options: IpvsOptions, node_addresses: Iterable[str] = ()) -> None:
        self.settings = settings
        self.options = options
        self._claimed: set[FrontendKey] = set()
        self._node_ports: dict[tuple[Family, str, int], PortKey] = {}  # the Service port of each
        self._node = self._plan(node_addresses)
        self._ports: dict[PortKey, dict[FrontendKey, Frontend]] = {}
        self._marks = Marks(settings)
        self._servers: dict[Server, Scheduling] = {}
        self._elements: Counter[Element] = Counter()
        self._addresses: Counter[str] = Counter()  # of Services, whether bound or the node's own
        self._sizes: Counter[str] = Counter()
        # Whether iptables-save prints rules as `chains.py` writes them; if not, only their number is compared.
        self.compares_text = True

    # --- Changes --------------------------------------------------------------------------------------------

    def change(
        self,
        changes: Iterable[Change],
        old_cluster_ips: Iterable[str] = (),
        new_cluster_ips: Iterable[str] = (),
    ) -> Transaction:
        """Return the transaction for these changes, for a kernel in the state before."""
        changes = list(changes)
        before = {port: self._render(port) for port in self._affected_ports(changes)}
        for old, new in changes:
            if old is not None:
                self._discard(old)
            if new is not None:
                self._add(new)
        transaction = Transaction()
        self._count_addresses(transaction, old_cluster_ips, new_cluster_ips)
        after = {}
        for port in sorted(before):
            self._allocate_mark(port)
            after[port] = self._render(port)
            if not self._ports.get(port):
                self._ports.pop(port, None)
        self._append_step(transaction, before, after)
        return normalized(transaction)

    def _affected_ports(self, changes: Iterable[Change]) -> set[PortKey]:
        """Return the Service ports of these Frontends, and those of node ports that the Frontends precede or did."""
        found = set()
        for change in changes:
            for frontend in change:
                if frontend is None:
                    continue
                found.add(port_of(frontend))
                address, protocol, number = frontend.key
                if address in self._node.own:
                    node_port = self._node_ports.get((frontend.key.family, protocol, number))
                    if node_port is not None:
                        found.add(node_port)
        return found

    def _add(self, frontend: Frontend) -> None:
        port = port_of(frontend)
        self._ports.setdefault(port, {})[frontend.key] = frontend
        if frontend.key.is_node_port:
            self._node_ports[frontend.key.family, frontend.key.protocol, frontend.key.port] = port
        else:
            self._claimed.add(frontend.key)

    def _discard(self, frontend: Frontend) -> None:
        self._ports.get(port_of(frontend), {}).pop(frontend.key, None)
        if frontend.key.is_node_port:
            self._node_ports.pop((frontend.key.family, frontend.key.protocol, frontend.key.port), None)
        else:
            self._claimed.discard(frontend.key)

    def move(self, node_addresses: Iterable[str]) -> Transaction:
        """Return the transaction for a change of the node's addresses to these."""
        node = self._plan(node_addresses)
        transaction = Transaction()
        if (node.own, node.node_ports) == (self._node.own, self._node.node_ports):
            return transaction
        affected = [port for port in sorted(self._ports) if self._depends_on_node(port)]
        before = {port: self._render(port) for port in affected}
        shared = [address for address in self._addresses if (address in node.own) != (address in self._node.own)]
        self._node = node
        for port in affected:
            self._allocate_mark(port)
        self._append_step(transaction, before, {port: self._render(port) for port in affected})
        for address in shared:
            (self._unbind if address in node.own else self._bind)(transaction, address)
        return normalized(transaction)

    def _depends_on_node(self, port: PortKey) -> bool:
        return any(
            frontend.key.is_node_port or frontend.source_ranges is not None for frontend in self._ports[port].values()
        )

    def _append_step(
        self, transaction: Transaction, before: Mapping[PortKey, PortState], after: Mapping[PortKey, PortState]
    ) -> None:
        """Add to the transaction the difference between two states of some ports."""
        for port, state in after.items():
            old = before[port]
            for element in old.elements - state.elements:
                self._drop_element(transaction, element)
            for element in state.elements - old.elements:
                self._add_element(transaction, element)
            self._count_addresses(transaction, old.addresses, state.addresses)
        # A virtual server may move from one port to another, so those of all ports are compared together.
        old_servers = {server: value for state in before.values() for server, value in state.servers.items()}
        new_servers = {
            server: (port, value) for port, state in after.items() for server, value in state.servers.items()
        }
        for server, (port, (scheduling, destinations)) in new_servers.items():
            had, present = old_servers.pop(server, _ABSENT)
            if destinations and (had != scheduling or not present):
                transaction.servers[server] = scheduling
            _replace_destinations(transaction, port, server, present, destinations)
        transaction.gone += sorted(old_servers)
        for server in (*transaction.gone, *transaction.closing):
            self._servers.pop(server, None)
        self._servers.update(transaction.servers)

    # --- Everything -----------------------------------------------------------------------------------------

    def full(
        self,
        frontends: Iterable[Frontend],
        cluster_ips: Iterable[str],
        kernel: KernelState,
        node_addresses: Iterable[str],
    ) -> Transaction:
        """Return the transaction after which the kernel has these Frontends and nothing else of ours."""
        ours = Ownership(kernel, self._servers)
        wanted = self._begin(frontends, cluster_ips, kernel, node_addresses, ours)
        transaction = Transaction()
        for family in (4, 6):
            tables = kernel.tables.get(family, {})
            transaction.takes_over |= chains.is_of_iptables(tables)
            if family in self.settings.families:
                chains.compare(family, self.settings, tables, transaction.rules, compares_text=self.compares_text)
            else:
                chains.remove(family, tables, transaction.rules)
        self._compare_sets(transaction, kernel)
        bound = self.bound()
        transaction.bound = sorted(bound - kernel.bound)
        transaction.unbound = sorted(kernel.bound - bound)
        servers = {server: (port, value) for port, state in wanted.items() for server, value in state.servers.items()}
        for server, (port, (scheduling, destinations)) in servers.items():
            had, loads = kernel.servers.get(server) or (None, {})
            if destinations and had != scheduling:
                transaction.servers[server] = scheduling
            present = frozenset(d for d, load in loads.items() if load.weight == 1 or d not in destinations)
            if had is not None and not present and not destinations:
                transaction.gone.append(server)
            _replace_destinations(transaction, port, server, present, destinations)
        transaction.gone += [
            server
            for server in sorted(kernel.servers.keys() - servers.keys())
            if ours(server) and not self._is_excluded(server)
        ]
        return normalized(transaction)

    def bound(self) -> set[str]:
        """Return the addresses that the dummy interface should have."""
        return {address for address in self._addresses if address not in self._node.own}

    def sizes(self) -> Counter[str]:
        """Return the number of elements that each set should have."""
        return self._sizes

    def servers(self) -> Mapping[Server, Scheduling]:
        """Return every wanted virtual server."""
        return self._servers

    def _begin(
        self,
        frontends: Iterable[Frontend],
        cluster_ips: Iterable[str],
        kernel: KernelState,
        node_addresses: Iterable[str],
        ours: Ownership,
    ) -> dict[PortKey, PortState]:
        """Replace the wanted state. Service ports keep the marks that they have in the kernel, so clients keep pods."""
        self._claimed.clear()
        self._node_ports.clear()
        self._ports.clear()
        self._node = self._plan(node_addresses)
        for frontend in frontends:
            self._add(frontend)
        marks = known_marks(kernel)
        self._marks.restart(self._ports, (s for s in kernel.servers if s.mark and not ours(s)))
        for port in sorted(self._ports):
            self._recall_mark(port, marks)
        for port in sorted(self._ports):
            self._allocate_mark(port)
        wanted = {port: self._render(port) for port in sorted(self._ports)}
        self._addresses = Counter(cluster_ips)
        self._elements = Counter()
        for state in wanted.values():
            self._addresses.update(state.addresses)
            self._elements.update(state.elements)
        for address in self.bound():
            self._elements[_bound_element(address)] += 1
        self._sizes = Counter(name for name, _ in self._elements)
        self._servers = {
            server: scheduling
            for state in wanted.values()
            for server, (scheduling, destinations) in state.servers.items()
            if destinations
        }
        return wanted

    def chains(self, family: Family) -> dict[Chain, Rules]:
        """Return all iptables chains that the family's tables should have, with their rules."""
        return chains.chains(family, self.settings)

    def _compare_sets(self, transaction: Transaction, kernel: KernelState) -> None:
        wanted: dict[str, set[str]] = {}
        for family in self.settings.families:
            for name, kind in sets.wanted(family).items():
                wanted[name] = set()
                found = kernel.sets.get(name)
                if found is None or found[0] != kind:
                    transaction.created[name] = kind
                    if found is not None:
                        transaction.replaced.append(name)
        for name, element in self._elements:
            wanted.setdefault(name, set()).add(element)
        for name, elements in wanted.items():
            present = kernel.sets[name][1] if name in kernel.sets and name not in transaction.replaced else set()
            if elements - present:
                transaction.added[name] = elements - present
            if present - elements:
                transaction.removed[name] = present - elements
            is_kept = name in kernel.sets and name not in transaction.replaced
            if is_kept and kernel.limits.get(name, USUAL_LIMIT) != USUAL_LIMIT and len(elements) <= USUAL_LIMIT:
                transaction.limited.append(name)

    def _is_excluded(self, server: Server) -> bool:
        if server.mark or not self.options.exclude_cidrs:
            return False
        address = ipaddress.ip_address(server.address)
        return any(address in ipaddress.ip_network(cidr) for cidr in self.options.exclude_cidrs)

    # --- Parts ----------------------------------------------------------------------------------------------

    def _plan(self, node_addresses: Iterable[str]) -> Node:
        return plan_addresses(self.settings, node_addresses)._replace(claimed=self._claimed)

    def _render(self, port: PortKey) -> PortState:
        frontends = self._ports.get(port)
        if not frontends:
            return NOTHING
        return render_port(port, frontends.values(), self._node, self._marks.get(port), self.options.scheduler)

    def _allocate_mark(self, port: PortKey) -> None:
        if needs_mark(self._ports.get(port, {}).values(), self._node):
            self._marks.allocate(port)
        else:
            self._marks.release(port)

    def _recall_mark(self, port: PortKey, marks: Mapping[Element, int]) -> None:
        """Allocate to the port the mark that it has in the kernel, if that is free."""
        if port in self._marks or not marks or not needs_mark(self._ports[port].values(), self._node):
            return
        for name, element in render_port(port, self._ports[port].values(), self._node, 0, "").elements:
            mark = marks.get((name, element.partition(" ")[0]))
            if mark is not None and self._marks.take(port, mark):
                return

    def _add_element(self, transaction: Transaction, element: Element) -> None:
        self._elements[element] += 1
        if self._elements[element] == 1:
            name, text = element
            self._sizes[name] += 1
            transaction.added.setdefault(name, set()).add(text)

    def _drop_element(self, transaction: Transaction, element: Element) -> None:
        self._elements[element] -= 1
        if not self._elements[element]:
            del self._elements[element]
            name, text = element
            self._sizes[name] -= 1
            transaction.removed.setdefault(name, set()).add(text)

    def _count_addresses(self, transaction: Transaction, old: Iterable[str], new: Iterable[str]) -> None:
        steps = Counter(new)
        steps.subtract(old)
        for address, step in steps.items():
            before = self._addresses[address]
            after = before + step
            if after:
                self._addresses[address] = after
            else:
                del self._addresses[address]
            if (before > 0) != (after > 0) and address not in self._node.own:
                (self._bind if after > 0 else self._unbind)(transaction, address)

    def _bind(self, transaction: Transaction, address: str) -> None:
        transaction.bound.append(address)
        self._add_element(transaction, _bound_element(address))

    def _unbind(self, transaction: Transaction, address: str) -> None:
        transaction.unbound.append(address)
        self._drop_element(transaction, _bound_element(address))


_ABSENT: tuple[Scheduling | None, frozenset[Destination]] = (None, frozenset())


def _replace_destinations(
    transaction: Transaction,
    port: PortKey,
    server: Server,
    present: frozenset[Destination],
    wanted: frozenset[Destination],
) -> None:
    """Replace the real servers of a virtual server; without any it is removed, and the rules reject.

    IPVS itself rejects no IPv6 connections from the node.
    """
    transaction.destinations += ((server, destination) for destination in sorted(wanted - present))
    gracefully = port.protocol == "tcp"
    if wanted or gracefully:
        transaction.retired += (Retired(server, one, gracefully) for one in sorted(present - wanted))
        if present and not wanted:
            transaction.closing.append(server)
    elif present:
        transaction.gone.append(server)


def plan_addresses(settings: Settings, node_addresses: Iterable[str]) -> Node:
    """Return which of the addresses of the node, without those of the dummy interface, have node ports."""
    own = frozenset(node_addresses)
    networks = None
    if settings.node_port_cidrs is not None:
        networks = [ipaddress.ip_network(cidr) for cidr in settings.node_port_cidrs]
    found = []
    for address in sorted(own):
        parsed = ipaddress.ip_address(address)
        # An IPv6 link-local address is ambiguous without its link.
        if parsed.is_loopback or (parsed.version == 6 and parsed.is_link_local):
            continue
        if family_of(address) in settings.families and (networks is None or any(parsed in n for n in networks)):
            found.append(address)
    return Node(own, tuple(found))


def exemption(kernel: KernelState, address: str, port: int) -> Transaction:
    """Return the transaction that exempts an address from an earlier proxy's rules; an empty one for a cluster IP."""
    family = family_of(address)
    _, cluster_ips = kernel.sets.get(sets.in_family(sets.CLUSTER_IP, family), (None, ()))
    if any(element.startswith(f"{address},") for element in cluster_ips):
        return Transaction()
    server = Server(family, address, "tcp", port)
    return Transaction(
        rules=exempting_rules(kernel.tables.get(family, {}), address, port),
        unbound=[address] if address in kernel.bound else [],
        gone=[server] if server in kernel.servers and Ownership(kernel)(server) else [],
    )


def removal(kernel: KernelState) -> Transaction:
    """Return the transaction that removes everything of this mode, except the sets and the dummy interface."""
    transaction = Transaction()
    for family, tables in kernel.tables.items():
        chains.remove(family, tables, transaction.rules)
    ours = Ownership(kernel)
    transaction.gone = [server for server in sorted(kernel.servers) if ours(server)]
    return transaction


def _bound_element(address: str) -> Element:
    return sets.in_family(sets.BOUND, family_of(address)), address

"""The ipvs mode: keeps the kernel's virtual servers equal to the Frontends. `agent.py` drives it.

`apply` carries out the changes of some Services. `sync` brings any state to the wanted one: at start, after a failure,
and when `verify` finds that another program changed something. The kernel sends no notifications of changes of virtual
servers and IP sets, so `verify` counts them, and compares all of them now and then.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
from collections.abc import Callable, Sequence

from bridgehead.proxy import iptables
from bridgehead.proxy.address_texts import Family, is_loopback
from bridgehead.proxy.config import IpvsOptions
from bridgehead.proxy.errors import Busy
from bridgehead.proxy.frontend_table import FrontendTable, Update, merge_updates
from bridgehead.proxy.frontends import Frontend, Problem, Reason
from bridgehead.proxy.iptables.apply import State
from bridgehead.proxy.iptables.readback import UNKNOWN_FORMAT, parse_listing
from bridgehead.proxy.iptables.transaction import Transaction as RulesTransaction
from bridgehead.proxy.mode import Repair, Settings, Watched

from . import chains, kube_proxy_takeover, sets
from .apply import Kernel, require_sysctl
from .draining import Draining
from .readback import KernelState
from .render import Renderer, exemption, removal
from .transaction import Transaction, texts

log = logging.getLogger(__name__)

_CHEAP_TO_LIST = 1000  # virtual servers; takes 5 ms. If there are more, only one is looked for between full comparisons


class IpvsMode:
    """The owner of kube-ipvs0, the KUBE-* IP sets and their virtual servers in this network namespace."""

    name = "ipvs"
    watched: Watched | None = None

    def __init__(
        self, kernel: Kernel, settings: Settings, options: IpvsOptions, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kernel = kernel
        self._options = options
        self._clock = clock
        self._renderer = Renderer(settings, options)
        self._draining = Draining()
        # The state of iptables after our last change; None when others may have changed it since.
        self._state: State | None = None
        self._is_alone = False  # whether the other variant of iptables is known to have no rules of ours
        self._has_moved = False  # the node's addresses have changed
        self._is_disturbed = False  # another program changed the dummy interface's

    @property
    def settings(self) -> Settings:
        return self._renderer.settings

    @property
    def families(self) -> tuple[Family, ...]:
        return self._kernel.tables.families

    def configure(self, settings: Settings) -> None:
        """Use other settings from the next `sync` on."""
        self._renderer = Renderer(settings, self._options)

    def unsupported(self, frontend: Frontend) -> Problem | None:
        """Return a problem for host ports of loopback addresses, from which IPVS reaches no pod."""
        if not is_loopback(frontend.key.address):
            return None
        return Problem(Reason.NOT_SUPPORTED, f"{frontend.key}: mode ipvs serves nothing on loopback addresses")

    async def apply(self, updates: Sequence[Update]) -> int:
        """Carry out the updates in the kernel. Returns how many objects changed."""
        changed = await self._follow_addresses()
        update = merge_updates(updates)
        transaction = self._renderer.change(update.changes, update.old_cluster_ips, update.new_cluster_ips)
        await self._do(transaction)
        return changed + transaction.size()

    async def sync(self, table: FrontendTable) -> int:
        """Make the kernel have the table's Frontends and nothing else of ours. Returns how many objects changed."""
        self._set_sysctls()
        transaction = await self._compare(table)
        await self._do(transaction)
        self._state = self._kernel.chains_state()
        if not self._is_alone:
            await self._remove_from_other_variants()
            self._is_alone = True
        return transaction.size()

    async def verify(self, table: FrontendTable, *, thoroughly: bool) -> Repair | None:
        """Repair what another program changed. None: nothing was wrong.

        Also follows the node's own addresses, and removes real servers whose connections have ended.
        """
        state = self._kernel.chains_state()
        await self._follow_addresses()
        self._drain()
        is_foreign = thoroughly or state != self._state or self._is_disturbed or self._has_lost_something()
        if not is_foreign:
            return None
        transaction = await self._compare(table)
        await self._do(transaction)
        self._state = self._kernel.chains_state()
        if not transaction:
            return None
        if transaction.rules and (await self._compare(table)).rules:
            self._renderer.compares_text = False
            log.info(UNKNOWN_FORMAT)
        return Repair(structure=bool(transaction.rules or transaction.created), elements=transaction.size())

    async def let_through(self, address: str, port: int) -> bool:
        """Remove the virtual server, and the address if it is bound; exempt it in the chains."""
        transaction = exemption(await self._kernel.read(), address, port)
        await self._do(transaction)
        return bool(transaction)

    async def remove(self) -> bool:
        """Remove everything of ours from the kernel, in either variant of iptables. False: there was nothing."""
        self._state = None
        self._draining.clear()
        others = await self._remove_from_other_variants()
        return await self._kernel.remove(removal(await self._kernel.read())) or others

    async def remove_leftovers(self, mode: str, *, is_last: bool = False) -> bool:
        """Remove what kube-proxy, which serves in that mode, does not use. False: there was nothing.

        Raises Busy if it has not written the rules of both IP families, unless `is_last`: then it serves only one.
        """
        if mode != self.name:
            return await self.remove()  # which leaves chains that mode iptables uses
        self._state = None
        kernel = await self._kernel.read()
        written = kube_proxy_takeover.written(kernel)
        waiting = [family for family, is_written in written.items() if not is_written]
        is_last = is_last and any(written.values())  # else kube-proxy's rules are not in these tables
        transaction = kube_proxy_takeover.removal(kernel, waiting, are_abandoned=is_last)
        removed = await self._kernel.remove_leftovers(
            transaction, kube_proxy_takeover.own_sets(waiting, are_abandoned=is_last)
        )
        if waiting and not is_last:
            raise Busy(f"kube-proxy has not written rules for IPv{waiting[0]}")
        return removed

    def render(self, table: FrontendTable) -> str:
        """Return everything as input for the node's own tools, as for an empty kernel."""
        renderer = Renderer(self.settings, self._options)
        return "".join(texts(renderer.full(table, table.cluster_ips(), KernelState(), self._kernel.node_addresses())))

    async def difference(self, table: FrontendTable) -> Transaction:
        """Return the difference between the kernel and the table. Terminating real servers are none."""
        renderer = Renderer(self.settings, self._options)
        kernel = await self._kernel.read()
        return self._without_terminating(
            renderer.full(table, table.cluster_ips(), kernel, self._kernel.node_addresses())
        )

    async def _compare(self, table: FrontendTable) -> Transaction:
        self._kernel.address_changes()  # before reading, so that later changes are noticed
        self._has_moved = self._is_disturbed = False
        kernel = await self._kernel.read()
        addresses = self._kernel.node_addresses()
        return self._without_terminating(self._renderer.full(table, table.cluster_ips(), kernel, addresses))

    def _without_terminating(self, transaction: Transaction) -> Transaction:
        transaction.retired = [
            retired for retired in transaction.retired if (retired.server, retired.destination) not in self._draining
        ]
        transaction.gone = [server for server in transaction.gone if not self._draining.is_closing(server)]
        return transaction

    async def _do(self, transaction: Transaction) -> None:
        if not transaction:
            return
        await self._kernel.do(transaction)
        for server in transaction.gone:
            self._draining.forget_server(server)
        for server, destination in transaction.destinations:
            self._draining.keep(server)
            self._draining.forget(server, destination)
        for server in transaction.closing:
            self._draining.close(server)
        now = self._clock()
        for server, destination, gracefully in transaction.retired:
            if gracefully:
                self._draining.add(server, destination, now)

    async def _follow_addresses(self) -> int:
        """Make node ports answer on the addresses that the node has now."""
        has_moved, is_disturbed = self._kernel.address_changes()
        self._has_moved |= has_moved
        self._is_disturbed |= is_disturbed
        if not self._has_moved:
            return 0
        self._has_moved = False
        transaction = self._renderer.move(self._kernel.node_addresses())
        await self._do(transaction)
        return transaction.size()

    def _drain(self) -> None:
        now = self._clock()
        for server in self._draining.due(now):
            removal = self._draining.take_ended(server, self._kernel.connections(server), now)
            self._kernel.remove_destinations((server, destination) for destination in removal.destinations)
            if removal.with_server:
                self._kernel.remove_server(server)

    def _has_lost_something(self) -> bool:
        """Return whether another program changed sets, addresses or virtual servers, as far as that is cheap to see."""
        sizes = self._kernel.set_sizes()
        wanted = self._renderer.sizes()
        for family in self.settings.families:
            for name in sets.wanted(family):
                if sizes.get(name, wanted[name]) != wanted[name]:
                    return True
        servers = self._renderer.servers()
        if len(servers) <= _CHEAP_TO_LIST:
            existing = self._kernel.servers()
            return any(existing.get(server) != scheduling for server, scheduling in servers.items())
        return not self._kernel.has_server(next(iter(servers)))

    def _set_sysctls(self) -> None:
        """Set the sysctls that kube-proxy sets in this mode."""
        require_sysctl("net/ipv4/vs/conntrack", 1)  # needed for masquerading
        require_sysctl("net/ipv4/vs/expire_nodest_conn", 1)  # end connections to removed real servers
        require_sysctl("net/ipv4/vs/expire_quiescent_template", 1)  # end affinity to terminating real servers
        if _kernel_version() < (5, 9):
            # Older kernels delay a connection from a recently used client port by a second (kubernetes #93297).
            require_sysctl("net/ipv4/vs/conn_reuse_mode", 0)
        require_sysctl("net/ipv4/ip_forward", 1)
        if self._options.strict_arp:
            require_sysctl("net/ipv4/conf/all/arp_ignore", 1)
            require_sysctl("net/ipv4/conf/all/arp_announce", 2)
        if self._options.tcp_timeout or self._options.tcp_fin_timeout or self._options.udp_timeout:
            self._kernel.set_timeouts(self._options)

    async def _remove_from_other_variants(self) -> bool:
        removed = False
        for variant in self._kernel.tables.other_variants():
            with contextlib.closing(iptables.Kernel(variant)) as tables:
                transaction = RulesTransaction()
                for family in (4, 6):
                    chains.remove(family, parse_listing(await tables.save(family)), transaction)
                for family, text in transaction.texts().items():
                    await tables.restore(family, text)
                    removed = True
        return removed


def _kernel_version() -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return (int(found[1]), int(found[2])) if found else (0, 0)

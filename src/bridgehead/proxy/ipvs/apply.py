"""The edge of the ipvs mode: opens what it needs of the kernel, reads it, does a transaction. No policy in here.

Virtual servers, IP sets and addresses go over netlink (`network/`), the few rules through iptables, in the variant that
the rest of this node uses. Everything raises TransactionFailed or ModeUnavailable.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from bridgehead.network.interface_addresses import Address, Addresses
from bridgehead.network.ipset import LARGE_LIMIT, USUAL_LIMIT, IpSets, SetHeader
from bridgehead.network.ipvs import Destination, Ipvs, Load, Scheduling, Server
from bridgehead.proxy import iptables
from bridgehead.proxy.config import IpvsOptions
from bridgehead.proxy.errors import Busy, ModeUnavailable, NotFound, NotPermitted, Refused, TransactionFailed
from bridgehead.proxy.iptables.apply import State
from bridgehead.proxy.iptables.readback import Table, parse_listing
from bridgehead.proxy.iptables.transaction import Transaction as RulesTransaction
from bridgehead.proxy.sysctls import Sysctl, write_sysctl

from . import chains, sets
from .readback import KernelState
from .transaction import DUMMY, Transaction

# An address for trying out, of those that documentation uses (RFC 5737), as kube-proxy does.
_TRIAL: Final = Server(4, "198.51.100.0", "tcp", 20000)
# Errors that do not depend on what was asked. EBUSY: a list changed while it was read.
_TEMPORARY: Final = (errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN, errno.EBUSY, errno.EINTR)
_INLINE: Final = 200  # changes that are faster done than handed to a thread

T = TypeVar("T")


class Kernel:
    """The IPVS, IP sets, addresses and iptables of the network namespace this process is in. Raises ModeUnavailable."""

    def __init__(self, tables: iptables.Kernel | iptables.NoCommands) -> None:
        self.tables = tables
        with contextlib.ExitStack() as opened, _unavailable():
            opened.callback(tables.close)
            self._sets = opened.enter_context(IpSets())
            self._addresses = opened.enter_context(Addresses())
            self._opened = opened.pop_all()
        self._ipvs: Ipvs | None = None
        self._dummy = self._addresses.link(DUMMY)
        # Our own changes of the dummy interface's addresses that the kernel has not reported yet.
        self._expected: dict[str, int] = {}

    @classmethod
    async def find(cls) -> Kernel:
        """Return a `Kernel` with the variant of iptables that the rest of this node uses.

        Without its commands, the mode cannot be used, but what an earlier proxy left can be removed.
        """
        try:
            return cls(await iptables.Kernel.find())
        except NotPermitted:
            raise
        except ModeUnavailable:
            return cls(iptables.NoCommands())

    @classmethod
    def without_tables(cls) -> Kernel:
        """Return a `Kernel` for a network namespace that has no tables of iptables, to remove all else."""
        return cls(iptables.NoCommands())

    def close(self) -> None:
        self._opened.close()
        if self._ipvs is not None:
            self._ipvs.close()

    async def probe(self, options: IpvsOptions) -> None:
        """Raise ModeUnavailable or NotPermitted, naming what the mode lacks on this node."""
        if isinstance(self.tables, iptables.NoCommands):
            await self.tables.probe()
        with _unavailable():
            try:
                ipvs = self._open_ipvs()
            except FileNotFoundError as error:
                raise ModeUnavailable("this kernel has no IPVS (CONFIG_IP_VS, module ip_vs)") from error
            try:
                ipvs.put([(_TRIAL, Scheduling(options.scheduler))])
                ipvs.remove([_TRIAL])
            except FileNotFoundError as error:
                raise ModeUnavailable(
                    f"this kernel's IPVS has no scheduler {options.scheduler} (module ip_vs_{options.scheduler})"
                ) from error
            try:
                self._dummy = self._addresses.add_dummy(DUMMY)
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:
                    raise
                raise ModeUnavailable(
                    "this kernel has IPVS, but no dummy interfaces (CONFIG_DUMMY, module dummy) to hold the addresses"
                ) from error
            self._try_sets()
        if not _has_sysctls():
            raise ModeUnavailable(
                "this kernel does not show net.ipv4.vs.conntrack here, as in a network namespace of an ordinary user; "
                "without it nothing that IPVS translates can be masqueraded"
            )
        await self.tables.probe()
        with _unavailable(), contextlib.suppress(FileExistsError):
            self._sets.create(sets.TRIAL, sets.wanted(4)[sets.CLUSTER_IP])
        rule = f"-m set --match-set {sets.TRIAL} dst,dst -j RETURN"
        await self.tables.try_out(self.tables.families[0], {"nat": (rule,)})
        with contextlib.suppress(OSError):  # nf_tables releases the sets of deleted rules a moment later
            self._sets.destroy([sets.TRIAL])

    def _try_sets(self) -> None:
        """Raise ModeUnavailable unless the kernel has all types of IP sets that the mode uses."""
        try:
            self._sets.headers()
        except OSError as error:
            raise ModeUnavailable(f"this kernel has no IP sets (CONFIG_IP_SET): {error.strerror}") from error
        for kind in dict.fromkeys(sets.wanted(4).values()):
            try:
                with contextlib.suppress(FileExistsError):  # left by an earlier probe
                    self._sets.create(sets.TRIAL, kind)
                    self._sets.destroy([sets.TRIAL])
            except OSError as error:
                if error.errno in (errno.EPERM, errno.EACCES):
                    raise
                raise ModeUnavailable(f"this kernel has no IP sets of type {kind.kind}: {error.strerror}") from error

    # --- Reading --------------------------------------------------------------------------------------------

    async def read(self) -> KernelState:
        """All that is this mode's, or could be."""
        tables = await self.read_tables()
        return await self._call(self._read, 1 << 30, tables)

    async def read_tables(self) -> dict[int, dict[str, Table]]:
        return {family: parse_listing(await self.tables.save(family)) for family in (4, 6)}

    def _read(self, tables: dict[int, dict[str, Table]]) -> KernelState:
        ours = set(sets.all_names())
        servers: dict[Server, tuple[Scheduling, dict[Destination, Load]]] = {}
        # Without the module there are no virtual servers, and a request would load it.
        if self._ipvs is not None or os.path.exists("/proc/net/ip_vs"):
            ipvs = self._open_ipvs()
            servers = {server: (scheduling, ipvs.destinations(server)) for server, scheduling in ipvs.servers().items()}
        self._dummy = self._addresses.link(DUMMY)
        existing = self._existing_sets()
        return KernelState(
            servers=servers,
            sets={name: (header.kind, self._sets.elements(name)) for name, header in existing.items() if name in ours},
            limits={name: header.limit for name, header in existing.items() if header.limit is not None},
            bound={address.address for address in self._addresses.all() if address.link == self._dummy},
            tables=tables,
        )

    def _existing_sets(self) -> dict[str, SetHeader]:
        """Return the IP sets. Raises OSError, but not in a kernel without IP sets, where there are none to remove."""
        try:
            return self._sets.headers()
        except OSError as error:
            if error.errno != errno.EINVAL:  # nfnetlink's error for a subsystem that nobody has registered
                raise
            return {}

    def chains_state(self) -> State:
        """Return a value that changes when anybody changes an iptables table. Takes microseconds."""
        return self.tables.state()

    def set_sizes(self) -> dict[str, int]:
        """Return the number of elements of each IP set, except sets for which this kernel does not report it."""
        with _refused():
            return {name: header.size for name, header in self._sets.headers().items() if header.size >= 0}

    def servers(self) -> dict[Server, Scheduling]:
        with _refused():
            return self._open_ipvs().servers()

    def has_server(self, server: Server) -> bool:
        with _refused():
            return self._open_ipvs().has(server)

    def connections(self, server: Server) -> dict[Destination, Load]:
        """Return the real servers behind a virtual server, with the number of connections of each."""
        with _refused():
            return self._open_ipvs().destinations(server)

    def node_addresses(self) -> list[str]:
        """Return every address of the node except those on the dummy interface."""
        with _refused():
            return [address.address for address in self._addresses.all() if address.link != self._dummy]

    def address_changes(self) -> tuple[bool, bool]:
        """Return whether addresses of the node changed since the last call, and whether others changed the dummy's."""
        with _refused():
            changes = self._addresses.changes()
        if changes is None:
            self._expected.clear()
            return True, True
        nodes = foreign = False
        for address, link in changes:
            if link != self._dummy:
                nodes = True
            elif self._expected.get(address):
                self._expected[address] -= 1
                if not self._expected[address]:
                    del self._expected[address]
            else:
                foreign = True
        return nodes, foreign

    # --- Changing -------------------------------------------------------------------------------------------

    async def do(self, transaction: Transaction) -> None:
        """Carry out a transaction in the order of its fields.

        Real servers that retire gracefully get no new connections from then on, and still exist. With `takes_over`, the
        iptables mode's rules serve until ours replace them, so the rules come after virtual servers and addresses.
        """
        if transaction.replaced:
            await self._replace(transaction.replaced)
        await self._call(self._prepare, transaction.size(), transaction)
        if transaction.takes_over:
            await self._call(self._serve, transaction.size(), transaction)
        for family, text in transaction.rules.texts().items():
            await self.tables.restore(family, text)
        if not transaction.takes_over:
            await self._call(self._serve, transaction.size(), transaction)
        await self._call(self._withdraw, transaction.size(), transaction)

    def _prepare(self, transaction: Transaction) -> None:
        for name, kind in transaction.created.items():
            with contextlib.suppress(FileExistsError):
                self._sets.create(name, kind)
        for name, elements in transaction.added.items():
            self._add(name, sorted(elements))

    def _add(self, name: str, elements: list[str]) -> None:
        """Add elements to a set, with another limit if they are too many for the usual one."""
        try:
            self._sets.add(name, elements)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            self._sets.change_limit(name, LARGE_LIMIT, sets.INTERIM)
            self._sets.add(name, elements)

    def _serve(self, transaction: Transaction) -> None:
        ipvs = self._open_ipvs()
        ipvs.put(transaction.servers.items())
        ipvs.put_destinations((server, destination, 1) for server, destination in transaction.destinations)
        if not self._dummy:
            self._dummy = self._addresses.add_dummy(DUMMY)
        self._addresses.add(self._own(transaction.bound))

    def _withdraw(self, transaction: Transaction) -> None:
        ipvs = self._open_ipvs()
        self._addresses.remove(self._own(transaction.unbound))
        ipvs.quiesce((server, destination) for server, destination, gracefully in transaction.retired if gracefully)
        ipvs.remove_destinations(
            (server, destination) for server, destination, gracefully in transaction.retired if not gracefully
        )
        ipvs.remove(transaction.gone)
        for name, elements in transaction.removed.items():
            self._sets.remove(name, sorted(elements))
        for name in transaction.limited:
            with contextlib.suppress(OSError):  # the next comparison tries again: only a later kube-proxy needs it
                self._sets.change_limit(name, USUAL_LIMIT, sets.INTERIM)

    def _own(self, addresses: Iterable[str]) -> list[Address]:
        for address in addresses:
            self._expected[address] = self._expected.get(address, 0) + 1
        return [Address(address, self._dummy) for address in addresses]

    def set_timeouts(self, options: IpvsOptions) -> None:
        with _refused():
            self._open_ipvs().set_timeouts(options.tcp_timeout, options.tcp_fin_timeout, options.udp_timeout)

    def remove_destinations(self, destinations: Iterable[tuple[Server, Destination]]) -> None:
        with _refused():
            self._open_ipvs().remove_destinations(destinations)

    def remove_server(self, server: Server) -> None:
        with _refused():
            self._open_ipvs().remove([server])

    async def remove(self, transaction: Transaction) -> bool:
        """Carry out the transaction, then remove the dummy interface and our IP sets. False: there was nothing."""
        for family, text in transaction.rules.texts().items():
            await self.tables.restore(family, text)
        with _refused():
            if transaction.gone:
                self._open_ipvs().remove(transaction.gone)
            had_dummy = bool(self._addresses.link(DUMMY))
            if had_dummy:
                self._addresses.remove_link(DUMMY)
            self._dummy = 0
            self._expected.clear()
            had_sets = self._destroy_sets(sets.all_names())
        return bool(transaction or had_dummy or had_sets)

    async def remove_leftovers(self, transaction: Transaction, names: Iterable[str]) -> bool:
        """Carry out the transaction, then remove these IP sets. False: there was nothing."""
        for family, text in transaction.rules.texts().items():
            await self.tables.restore(family, text)
        with _refused():
            if transaction.gone:
                self._open_ipvs().remove(transaction.gone)
            self._addresses.remove(self._own(transaction.unbound))
            return self._destroy_sets(names) or bool(transaction)

    def _destroy_sets(self, names: Iterable[str]) -> bool:
        """Destroy the sets that exist. False: there were none."""
        existing = set(self._existing_sets())
        found = [name for name in names if name in existing]
        self._sets.flush(found)
        self._sets.destroy(found)
        return bool(found)

    async def _replace(self, names: list[str]) -> None:
        """Remove sets that have a wrong type, and all rules of this mode first, which refer to them."""
        transaction = RulesTransaction()
        for family, tables in (await self.read_tables()).items():
            chains.remove(family, tables, transaction)
        for family, text in transaction.texts().items():
            await self.tables.restore(family, text)
        with _refused():
            self._sets.destroy(names)

    async def _call(self, function: Callable[..., T], size: int, *arguments: object) -> T:
        with _refused():
            if size <= _INLINE:
                return function(*arguments)
            return await asyncio.to_thread(function, *arguments)

    def _open_ipvs(self) -> Ipvs:
        if self._ipvs is None:
            self._ipvs = Ipvs()
        return self._ipvs


def _has_sysctls() -> bool:
    return os.path.exists("/proc/sys/net/ipv4/vs/conntrack")


def require_sysctl(name: str, value: int) -> None:
    """Set a sysctl if it has another value. Raises Refused."""
    try:
        write_sysctl(Sysctl(name, value))
    except OSError as error:
        raise Refused(f"sysctl {name.replace('/', '.')} cannot be set to {value}: {error.strerror}") from error


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(str(error.strerror)) from error
    except OSError as error:
        raise _as_exception(error, Refused) from error


@contextlib.contextmanager
def _unavailable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _as_exception(error, ModeUnavailable) from error


def _as_exception(
    error: OSError, otherwise: type[ModeUnavailable] | type[TransactionFailed]
) -> ModeUnavailable | TransactionFailed:
    if error.errno in (errno.EPERM, errno.EACCES):
        return NotPermitted(
            f"may not change this network namespace's virtual servers: CAP_NET_ADMIN is needed ({error.strerror})"
        )
    if otherwise is Refused and (error.errno in _TEMPORARY or isinstance(error, TimeoutError)):
        return Busy(str(error))
    return otherwise(str(error.strerror))

"""The cluster DNS's address, served on the node before any service proxy translates a query. `process.py` runs it.

A local route makes the node accept packets to the address, and an nf_tables table exempts them from connection tracking
and NAT (`network/untracked.py`). Both exist from the first moment that there are answers until SIGTERM. At any other
time, however the process ended, queries take their usual way: through the service proxy to the Deployment.

An address that a link of the node has is left alone: in ipvs mode the service proxy gives all of its addresses to
`kube-ipvs0`, and IPVS would take the packets before any socket, and lose untracked ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
from collections.abc import Iterator
from typing import Protocol

from bridgehead.dns.errors import CannotServe
from bridgehead.network.closable import Closable
from bridgehead.network.interface_addresses import Addresses
from bridgehead.network.own_addresses import add_local_route, remove_local_route, source_towards
from bridgehead.network.untracked import UntrackedTable

log = logging.getLogger(__name__)

TABLE = "bridgehead-dns"
LEASE_SECONDS = 3.0  # lifetime of the elements in a table without an owner, after the process was killed
_RENEWALS_PER_LEASE = 3
_CHECK_SECONDS = 5.0


class Holder(Protocol):
    """Holds the addresses; `process.run` starts it before there are answers, and cancels it at the end."""

    async def run(self, has_answers: asyncio.Event, ending: asyncio.Event) -> None:
        """Raises CannotServe."""


class NodeLocal(Closable):
    """The addresses in this network namespace. Use as a context manager, or `close` it.

    Methods block for a moment, and raise OSError.
    """

    def __init__(self, addresses: tuple[str, ...], *, may_own: bool = True) -> None:
        self._addresses = addresses
        self._wanted = False
        self._sources: dict[str, str] = {}  # source addresses of the local routes
        self._warned: set[str] = set()  # addresses that a link has
        self._links = Addresses()
        try:
            families = {6 if ":" in address else 4 for address in addresses}
            self._table = UntrackedTable(TABLE, sorted(families), lease_seconds=LEASE_SECONDS, may_own=may_own)
        except OSError:
            self._links.close()
            raise
        try:
            for address in addresses:
                remove_local_route(address)  # a killed process leaves its route
            self._sync()
        except OSError:
            self.close()
            raise
        if not self._table.is_owned:
            log.warning(
                "this kernel has no owners of nf_tables tables (Linux 5.12): a kill loses queries for up to %g s",
                LEASE_SECONDS,
            )

    def fileno(self) -> int:
        """Return a descriptor that is readable when the node's addresses have changed: time for `check_links`."""
        return self._links.fileno()

    def take(self) -> None:
        """Receive all queries to the addresses from now on."""
        self._wanted = True
        self._sync()

    def leave(self) -> None:
        """Receive no new queries. Queries that have arrived can still be answered."""
        self._wanted = False
        self._table.leave(self._addresses)

    @property
    def pause(self) -> float:
        """Seconds until the next `renew`."""
        return _CHECK_SECONDS if self._table.is_owned else LEASE_SECONDS / _RENEWALS_PER_LEASE

    def renew(self) -> None:
        """Renew the lease of a table without an owner, and restore removed routes.

        Untracked and without its local route, a query would leave the node by the default route.
        """
        self._table.renew()
        for address, source in self._sources.items():
            try:
                add_local_route(address, source)
                log.warning("this node's local route to %s was removed by another process; it is restored", address)
            except FileExistsError:
                pass  # the usual case
            except OSError as error:
                log.warning("%s", error)

    def check_links(self) -> None:
        """Sync after a change of the node's addresses. An error is logged, and the next change syncs again."""
        try:
            if self._links.changes() != []:
                self._sync()
        except OSError as error:
            log.warning("%s", error)

    def close(self) -> None:
        """Remove the table and the routes."""
        try:
            self._table.close()
        finally:
            self._links.close()
            for address in self._addresses:
                remove_local_route(address)

    def _sync(self) -> None:
        links = {found.address: found.link for found in self._links.all()}
        for address in self._addresses:
            if address in links:
                self._yield(address)
                continue
            self._warned.discard(address)
            if self._sources.get(address, "") not in links:
                # The route is new, or the kernel has removed it with its source address.
                self._release(address)
                source = source_towards(address)
                with contextlib.suppress(FileExistsError):  # a link has just got it; `check_links` follows
                    add_local_route(address, source)
                    self._sources[address] = source
            if self._wanted and address in self._sources and self._table.take([address]):
                log.info("this node's queries to %s are answered here", address)

    def _yield(self, address: str) -> None:
        """Leave an address to the link that has it."""
        self._release(address)
        if address not in self._warned:
            self._warned.add(address)
            log.warning(
                "a link of this node has %s (a proxy in ipvs mode?): its queries are not answered here", address
            )

    def _release(self, address: str) -> None:
        self._table.leave([address])
        remove_local_route(address)
        self._sources.pop(address, None)


class LocalHolder:
    """A `Holder` in this process."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self._addresses = addresses

    async def run(self, has_answers: asyncio.Event, ending: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        with _wrapping_errors(self._addresses), NodeLocal(self._addresses) as held:
            await has_answers.wait()
            held.take()
            loop.add_reader(held, held.check_links)
            try:
                while not ending.is_set():
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(held.pause):
                            await ending.wait()
                    held.renew()
            finally:
                loop.remove_reader(held)
                held.leave()
            await asyncio.Event().wait()


class RemoteHolder:
    """A `Holder` for one of several processes: notifies the process that runs `hold_for_workers`, by a pipe."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    async def run(self, has_answers: asyncio.Event, ending: asyncio.Event) -> None:
        await has_answers.wait()
        with contextlib.suppress(BrokenPipeError):  # the holder has ended, so the supervisor ends this process, too
            os.write(self._pipe, b"!")


async def hold_for_workers(addresses: tuple[str, ...], pipe: int, ending: asyncio.Event) -> None:
    """Hold the addresses from the first byte in the pipe until its writers are gone. Raises CannotServe."""
    loop = asyncio.get_running_loop()
    has_answers, all_gone = asyncio.Event(), asyncio.Event()

    def read() -> None:
        if os.read(pipe, 100):
            has_answers.set()
        else:
            loop.remove_reader(pipe)
            all_gone.set()

    loop.add_reader(pipe, read)
    async with asyncio.TaskGroup() as tasks:
        holding = tasks.create_task(LocalHolder(addresses).run(has_answers, ending))
        await all_gone.wait()
        holding.cancel()


@contextlib.contextmanager
def _wrapping_errors(addresses: tuple[str, ...]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = {
            errno.EPERM: "another process serves them on this node, or CAP_NET_ADMIN is missing",
            errno.EPROTONOSUPPORT: "this kernel has no nf_tables",
            errno.EOPNOTSUPP: "this kernel's nf_tables lack a feature",
        }.get(error.errno or 0, str(error.strerror))
        raise CannotServe(f"cannot serve {', '.join(addresses)} on the node: {reason}") from error

"""The cluster DNS's address served on the node itself, before any service proxy sees a query. `process.py` runs it.

What is sent to the address is taken in (a local route), and neither tracked nor translated (`network/untracked.py`),
from the moment there are answers until we are told to end. Whenever that is not so, however it came, queries go the way
they would go without us: through the service proxy to the Deployment behind the Service.

An address that a link of this node has is not ours to take: in ipvs mode the service proxy gives all of them to
`kube-ipvs0`, and IPVS would take the packets before any socket, and lose what is not tracked. We stand aside for as
long.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
from collections.abc import Iterator
from typing import Protocol

from bridgehead.network.addresses import Addresses
from bridgehead.network.closable import Closable
from bridgehead.network.own_addresses import add_local_route, remove_local_route, source_towards
from bridgehead.network.untracked import UntrackedTable

from .errors import CannotServe

log = logging.getLogger(__name__)

TABLE = "bridgehead-dns"
LEASE_SECONDS = 3.0  # in which a table that nobody owns ends to lead queries to a process that is gone
_RENEWALS = 3  # within that time
_LOOK_SECONDS = 5.0


class Hold(Protocol):
    """What `process.run` needs: something that goes on from before there are answers until it is cancelled."""

    async def run(self, has_answers: asyncio.Event, ending: asyncio.Event) -> None:
        """Raises CannotServe."""


class NodeLocal(Closable):
    """The addresses in this network namespace. Use as a context manager, or `close` it.

    Methods block for a moment, and raise OSError.
    """

    def __init__(self, addresses: tuple[str, ...], *, may_own: bool = True) -> None:
        self._addresses = addresses
        self._wanted = False
        self._sources: dict[str, str] = {}  # of the routes that are there
        self._told: set[str] = set()
        self._links = Addresses()
        try:
            families = {6 if ":" in address else 4 for address in addresses}
            self._table = UntrackedTable(TABLE, sorted(families), lease_seconds=LEASE_SECONDS, may_own=may_own)
        except OSError:
            self._links.close()
            raise
        try:
            for address in addresses:
                remove_local_route(address)  # of a process that was killed
            self._settle()
        except OSError:
            self.close()
            raise
        if not self._table.is_owned:
            log.warning(
                "this kernel's nf_tables know no owner (Linux 5.12): killed, we are asked in vain for up to %g s",
                LEASE_SECONDS,
            )

    def fileno(self) -> int:
        """Readable when the node's addresses have changed: time for `look`."""
        return self._links.fileno()

    def take(self) -> None:
        """Have all queries, from now on."""
        self._wanted = True
        self._settle()

    def leave(self) -> None:
        """Have none any more. What has come can still be answered."""
        self._wanted = False
        self._table.leave(self._addresses)

    @property
    def pause(self) -> float:
        """The seconds after which `renew` is due again."""
        return _LOOK_SECONDS if self._table.is_owned else LEASE_SECONDS / _RENEWALS

    def renew(self) -> None:
        """Say that we are still there, where the kernel does not know by itself; and that the routes are to be there.

        Untracked and without its route, a query would leave the node by the default one.
        """
        self._table.renew()
        for address, source in self._sources.items():
            try:
                add_local_route(address, source)
                log.warning("somebody had removed this node's local route to %s; it is back", address)
            except FileExistsError:
                pass  # as it should be
            except OSError as error:
                log.warning("%s", error)

    def look(self) -> None:
        """See whether another has the address now, or not any more. What fails is told, and left to the next change."""
        try:
            if self._links.changes() != []:
                self._settle()
        except OSError as error:
            log.warning("%s", error)

    def close(self) -> None:
        """Leave nothing behind."""
        try:
            self._table.close()
        finally:
            self._links.close()
            for address in self._addresses:
                remove_local_route(address)

    def _settle(self) -> None:
        holders = {found.address: found.link for found in self._links.all()}
        for address in self._addresses:
            if address in holders:
                self._stand_aside(address)
                continue
            self._told.discard(address)
            if self._sources.get(address, "") not in holders:
                # New, or the kernel has dropped the route together with the address that was its source.
                self._drop(address)
                source = source_towards(address)
                with contextlib.suppress(FileExistsError):  # it has just been given to a link: we are told in a moment
                    add_local_route(address, source)
                    self._sources[address] = source
            if self._wanted and address in self._sources and self._table.take([address]):
                log.info("this node's queries to %s are answered here", address)

    def _stand_aside(self, address: str) -> None:
        self._drop(address)
        if address not in self._told:
            self._told.add(address)
            log.warning(
                "a link of this node has %s (the service proxy's ipvs mode?): its queries stay with others", address
            )

    def _drop(self, address: str) -> None:
        self._table.leave([address])
        remove_local_route(address)
        self._sources.pop(address, None)


class HoldHere:
    """Holds the addresses in this process. A `Hold`."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self._addresses = addresses

    async def run(self, has_answers: asyncio.Event, ending: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        with _refusals(self._addresses), NodeLocal(self._addresses) as place:
            await has_answers.wait()
            place.take()
            loop.add_reader(place, place.look)
            try:
                while not ending.is_set():
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(place.pause):
                            await ending.wait()
                    place.renew()
            finally:
                loop.remove_reader(place)
                place.leave()
            await asyncio.Event().wait()


class HoldElsewhere:
    """Tells the process that holds the addresses for several (`hold_for_others`) that one can answer. A `Hold`."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    async def run(self, has_answers: asyncio.Event, ending: asyncio.Event) -> None:
        await has_answers.wait()
        with contextlib.suppress(BrokenPipeError):  # that one has ended, and so shall we in a moment
            os.write(self._pipe, b"!")


async def hold_for_others(addresses: tuple[str, ...], pipe: int, ending: asyncio.Event) -> None:
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
        holding = tasks.create_task(HoldHere(addresses).run(has_answers, ending))
        await all_gone.wait()
        holding.cancel()


@contextlib.contextmanager
def _refusals(addresses: tuple[str, ...]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = {
            errno.EPERM: "another process does on this node, or CAP_NET_ADMIN is missing",
            errno.EPROTONOSUPPORT: "this kernel has no nf_tables",
            errno.EOPNOTSUPP: "this kernel's nf_tables lack something",
        }.get(error.errno or 0, str(error.strerror))
        raise CannotServe(f"cannot serve {', '.join(addresses)} on the node: {what}") from error

"""Connections that are open while an address moves here as planned: their packets go on to the node that had it.

Clients send to the new holder as soon as it announces the address, also the packets of connections that only the old
node's connection tracking knows (`network/handover_tables.py`). The old node goes on forwarding them, whether or not it
still has the address itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from bridgehead.network.handover_tables import HandoverTables
from bridgehead.objects.meta import ObjectKey

from .announcer import UpdateResult
from .kernel_tables import KernelTables
from .ranges import IpAddress
from .view import ClusterView, Publication

# In which a move is over, and only the next holder receives an address's packets. Longer than a speaker that ends waits
# for the next holder (`leave` of the speaker's reconciler): when it ends without one, several nodes may take over.
_PASSING_SECONDS: Final = 5.0
_LATE_SECONDS: Final = 0.3  # in which clients learn of the next holder, also on a busy machine
_REMAINING_SECONDS: Final = 60.0  # in which a node whose speaker has ended is still expected to forward


class _Handover(NamedTuple):
    """`node`: the name of the node that had the address. `protocol`: how this node announces it.

    `is_passing`: another node should be the next holder, and this handover ends by itself unless this node has the
    address.
    """

    node: str
    protocol: str
    is_passing: bool = False


class Handovers:
    """Addresses of this node that others had before, and addresses that it had, whatever announces them.

    Announcers call `begin`, `pass_on`, `end`, `retain` (with the names of their protocols) and `lose`, and are updated
    after it, so that it has the present view. Handovers that begin take effect with `apply`. An address may begin to be
    announced by another protocol before the first one gives it up: each gives up only its own.
    """

    def __init__(self) -> None:
        self._view = ClusterView("")
        self._handovers: dict[IpAddress, _Handover] = {}
        # As many as the pools have. The next holder copies packets in doubt for as long as it has the address.
        self._lost: set[IpAddress] = set()
        self._retained: dict[str, Collection[IpAddress]] = {}  # of those in `_handovers`, by protocol
        self._absent: dict[str, asyncio.TimerHandle] = {}  # what forgets each node whose speaker has ended
        self._has_changed = False
        self._tables = KernelTables(
            HandoverTables, self._fill, "connections that are open while an address moves here will be reset"
        )

    # --- The speaker's interface ----------------------------------------------------------------------------------

    def update(
        self, view: ClusterView, publications: Mapping[ObjectKey, Publication], changed: Collection[ObjectKey]
    ) -> UpdateResult:
        """Forget nodes that died, at once; those whose speakers ended as planned, after a while."""
        old, self._view = self._view, view
        for name in view.members & self._absent.keys():
            self._absent.pop(name).cancel()
        for name in old.members - view.members:
            node = old.nodes.get(name)
            if node is not None and node.is_ending:
                loop = asyncio.get_running_loop()
                self._absent[name] = loop.call_later(_REMAINING_SECONDS, self._forget_absent, name)
            else:
                self._forget(name)
        self.apply()
        return UpdateResult()

    async def run(self) -> None:
        """Change the kernel's rules until cancelled, and remove them at the end."""
        await self._tables.run()

    # --- The announcers -------------------------------------------------------------------------------------------

    def begin(self, address: IpAddress, node: str, protocol: str) -> None:
        """Let packets of unknown connections to an address go to the node that had it. Ignored for dead nodes."""
        if address in self._lost:
            self._lost.remove(address)
            self._has_changed = True
        if node in self._view.members and node != self._view.this_node:
            self._handovers[address] = _Handover(node, protocol)
            self._has_changed = True

    def pass_on(self, address: IpAddress, node: str, protocol: str) -> None:
        """Do as `begin` for a moment, in which this node may have the address, although another one should have it.

        On a busy machine the other node may be late: the moment lasts until the address is no longer retained.
        """
        if node in self._view.members and node != self._view.this_node:
            handover = self._handovers[address] = _Handover(node, protocol, is_passing=True)
            asyncio.get_running_loop().call_later(_PASSING_SECONDS, self._end_passing, address, handover)
            self._has_changed = True

    def lose(self, address: IpAddress) -> None:
        """Ignore packets to an address that is another node's now if the next holder has copied them in doubt.

        The address may begin here again.
        """
        self._lost.add(address)
        self._has_changed = True

    def end(self, address: IpAddress, protocol: str) -> None:
        """Let all packets to an address be this node's, in a moment: some clients still send here what is not."""
        found = self._handovers.get(address)
        if found is not None and found.protocol == protocol and not found.is_passing:
            asyncio.get_running_loop().call_later(_LATE_SECONDS, self._end, address, found)

    def retain(self, addresses: Collection[IpAddress], protocol: str) -> None:
        """End the handovers of all other addresses of a protocol."""
        self._retained[protocol] = self._handovers.keys() & addresses
        for address in self._handovers.keys() - addresses:
            self.end(address, protocol)

    def apply(self) -> None:
        """Bring the kernel's rules up to date. If the kernel lacks them, open connections do not survive a move."""
        if self._has_changed:
            self._has_changed = False
            self._tables.update(is_needed=bool(self._handovers or self._lost))

    # --------------------------------------------------------------------------------------------------------------

    def _end_passing(self, address: IpAddress, handover: _Handover) -> None:
        if self._handovers.get(address) is handover:
            self._handovers[address] = handover._replace(is_passing=False)
            if address not in self._retained.get(handover.protocol, ()):
                self.end(address, handover.protocol)

    def _end(self, address: IpAddress, handover: _Handover) -> None:
        if self._handovers.get(address) is handover:  # none has begun since
            del self._handovers[address]
            self._has_changed = True
            asyncio.get_running_loop().call_soon(self.apply)  # the first of these calls is for all that end now

    def _forget_absent(self, node: str) -> None:
        del self._absent[node]
        self._forget(node)
        self.apply()

    def _forget(self, node: str) -> None:
        kept = {address: found for address, found in self._handovers.items() if found.node != node}
        self._has_changed |= len(kept) < len(self._handovers)
        self._handovers = kept

    def _fill(self, tables: HandoverTables) -> None:
        tables.update(dict(self._gateways()), self._lost)

    def _gateways(self) -> Iterable[tuple[IpAddress, IpAddress]]:
        """Yield each address with the address of the node, of the same family, to which its packets go."""
        gateways: dict[tuple[str, int], IpAddress] = {}  # of few nodes, for thousands of addresses
        for name in {found.node for found in self._handovers.values()} & self._view.nodes.keys():
            for gateway in self._view.nodes[name].ip_addresses():
                gateways.setdefault((name, gateway.version), gateway)
        for address, found in self._handovers.items():
            if (node := gateways.get((found.node, address.version))) is not None:
                yield address, node

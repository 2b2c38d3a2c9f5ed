"""Open connections that routers give to other nodes: each node asks all others whose they are.

The rules of `network/connection_search.py` are in the kernel for a while after a planned change of the nodes that
announce an address (`moved_addresses.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from bridgehead.balancer.announcer import UpdateResult
from bridgehead.balancer.kernel_tables import KernelTables
from bridgehead.balancer.ranges import IpAddress
from bridgehead.balancer.view import ClusterView, Publication
from bridgehead.network.connection_search import SearchTables
from bridgehead.network.host_paths import find_path
from bridgehead.objects.meta import ObjectKey

from .moved_addresses import Moves

_MOST_NODES: Final = 16  # in which each packet that is searched for makes 15 copies


class ConnectionSearches:
    """The rules of this node. The reconciler updates them before the announcer that changes routes."""

    def __init__(self) -> None:
        self._moves = Moves()
        self._view = ClusterView("")
        self._others: list[IpAddress] = []  # the addresses of the nodes to ask
        self._tables = KernelTables(
            SearchTables, self._fill, "open connections that routers give to other nodes will be reset"
        )
        self._timer: asyncio.TimerHandle | None = None

    def update(
        self, view: ClusterView, publications: Mapping[ObjectKey, Publication], changed: Collection[ObjectKey]
    ) -> UpdateResult:
        old, self._view = self._view, view
        if view.members != old.members or view.nodes != old.nodes:
            self._others = list(_nodes_to_ask(view))
        self._moves.update(view, publications, changed, asyncio.get_running_loop().time())
        self._apply()
        return UpdateResult()

    async def run(self) -> None:
        """Change the kernel's rules until cancelled, and remove them at the end."""
        try:
            await self._tables.run()
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _apply(self) -> None:
        """Bring the kernel's rules up to date. If the kernel lacks them, connections that move are reset."""
        self._tables.update(is_needed=bool(self._moves.announced))
        self._set_timer()

    def _fill(self, tables: SearchTables) -> None:
        tables.update(self._moves.announced, self._moves.moved, self._others)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        end = self._moves.next_end
        self._timer = None if end is None else asyncio.get_running_loop().call_at(end, self._expire, end)

    def _expire(self, now: float) -> None:
        self._moves.expire(now)
        self._apply()


def _nodes_to_ask(view: ClusterView) -> Iterator[IpAddress]:
    """Yield the addresses of the other nodes, of the families in which all are on this node's network.

    Routers between nodes would send copies where they send the connection's packets. Connections at a node that cannot
    be asked would hang instead of being reset.
    """
    names = view.members - {view.this_node}
    if len(names) >= _MOST_NODES:
        return
    found = [address for name in names & view.nodes.keys() for address in view.nodes[name].ip_addresses()]
    remote = {address.version for address in found if not _is_on_link(address)}
    yield from (address for address in found if address.version not in remote)


def _is_on_link(address: IpAddress) -> bool:
    try:
        path = find_path(str(address))
    except OSError:
        return False
    return path is not None and path.is_on_link

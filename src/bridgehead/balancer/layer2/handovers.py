"""Connections that are open while an address moves here as planned: their packets go on to the node that had it.

Clients send to the new holder as soon as it announces the address, also the packets of connections that only the old
node's connection tracking knows (`network/handover.py`). The old node goes on forwarding them.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
from collections.abc import Iterable
from typing import Final

from bridgehead.network.handover import HandoverTables

from ..ranges import IpAddress
from ..view import ClusterView

log = logging.getLogger(__name__)

_REMAINING_SECONDS: Final = 60.0  # in which a node whose speaker has ended is still expected to forward


class Handovers:
    """The addresses of this node that others had before. Changes take effect with `apply`."""

    def __init__(self) -> None:
        self._view = ClusterView("")
        self._nodes: dict[IpAddress, str] = {}  # by name
        self._tables: HandoverTables | None = None
        self._is_supported = self._has_changed = False

    def open(self) -> None:
        """Begin to change the kernel's rules."""
        self._is_supported = self._has_changed = True
        self.apply()

    def close(self) -> None:
        """Remove all rules."""
        self._is_supported = False
        if self._tables is not None:
            self._tables.close()
            self._tables = None

    def begin(self, address: IpAddress, node: str) -> None:
        """Let packets of unknown connections to an address go to the node that had it. Ignored for dead nodes."""
        if node in self._view.members:
            self._nodes[address] = node
            self._has_changed = True

    def end(self, address: IpAddress) -> None:
        """Let all packets to an address be this node's."""
        self._has_changed |= self._nodes.pop(address, None) is not None

    def set_view(self, view: ClusterView) -> None:
        """Forget nodes that died, at once; those whose speakers ended as planned, after a while."""
        old, self._view = self._view, view
        for name in old.members - view.members:
            node = old.nodes.get(name)
            if node is not None and node.is_leaving:
                asyncio.get_running_loop().call_later(_REMAINING_SECONDS, self._forget_absent, name)
            else:
                self._forget(name)

    def _forget_absent(self, node: str) -> None:
        if node not in self._view.members:
            self._forget(node)
            self.apply()

    def _forget(self, node: str) -> None:
        for address in [address for address, name in self._nodes.items() if name == node]:
            self.end(address)

    def apply(self) -> None:
        """Bring the kernel's rules up to date. Where the kernel lacks them, open connections do not survive a move."""
        if not self._has_changed or not self._is_supported:
            return
        self._has_changed = False
        try:
            if self._tables is None and self._nodes:
                self._tables = HandoverTables()
            if self._tables is not None:
                self._tables.set_nodes(dict(self._gateways()))
        except OSError as error:
            log.warning("connections that are open while an address moves here will be reset: %s", error)
            self.close()

    def _gateways(self) -> Iterable[tuple[str, str]]:
        """Yield each address with the address of the node, of the same family, to which its packets go."""
        for address, name in self._nodes.items():
            node = self._view.nodes.get(name)
            for text in node.addresses if node is not None else ():
                with contextlib.suppress(ValueError):
                    if ipaddress.ip_address(text).version == address.version:
                        yield str(address), text
                        break

"""Graceful termination: real servers without new connections, which exist until their connections have ended.

Pure: no I/O, no clock, no randomness. As in kube-proxy only for TCP: UDP has no end, and SCTP clients notice. IPVS ends
a connection whose real server is removed (net.ipv4.vs.expire_nodest_conn).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bridgehead.network.ipvs import Destination, Load, Server

LONGEST_SECONDS = 3600.0  # until a real server is removed with its connections
CHECK_SECONDS = 5.0


class Removal(NamedTuple):
    """The real servers to remove, and whether the virtual server is removed after them."""

    destinations: tuple[Destination, ...]
    with_server: bool


class Draining:
    """The real servers that terminate, with their deadlines. Times are seconds of any one clock."""

    def __init__(self) -> None:
        self._terminating: dict[Server, dict[Destination, float]] = {}
        self._closing: set[Server] = set()
        self._checked = float("-inf")

    def __contains__(self, item: tuple[Server, Destination]) -> bool:
        server, destination = item
        return destination in self._terminating.get(server, ())

    def is_closing(self, server: Server) -> bool:
        return server in self._closing

    def add(self, server: Server, destination: Destination, now: float) -> None:
        self._terminating.setdefault(server, {}).setdefault(destination, now + LONGEST_SECONDS)

    def close(self, server: Server) -> None:
        """Remove the virtual server after the last of its real servers."""
        self._closing.add(server)

    def keep(self, server: Server) -> None:
        """Do not remove the virtual server: it is wanted again."""
        self._closing.discard(server)

    def forget(self, server: Server, destination: Destination) -> None:
        """Forget a real server that is wanted again, or was removed."""
        destinations = self._terminating.get(server, {})
        destinations.pop(destination, None)
        if not destinations:
            self._terminating.pop(server, None)

    def forget_server(self, server: Server) -> None:
        """Forget a virtual server that was removed with its real servers."""
        self._terminating.pop(server, None)
        self._closing.discard(server)

    def clear(self) -> None:
        self._terminating.clear()
        self._closing.clear()

    def due(self, now: float) -> tuple[Server, ...]:
        """Return the virtual servers whose connections to check now; none if the last check was a moment ago."""
        if not (self._terminating or self._closing) or now - self._checked < CHECK_SECONDS:
            return ()
        self._checked = now
        return tuple(dict.fromkeys((*self._terminating, *self._closing)))

    def take_ended(self, server: Server, loads: Mapping[Destination, Load], now: float) -> Removal:
        """Return what to remove of `server`, whose real servers have the `loads`, and forget it."""
        ended = []
        for destination, deadline in list(self._terminating.get(server, {}).items()):
            load = loads.get(destination)
            if load is None or not load.connections or now >= deadline:
                self.forget(server, destination)
                if load is not None:
                    ended.append(destination)
        is_empty = server in self._closing and loads.keys() <= set(ended)
        if is_empty:
            self._closing.discard(server)
        return Removal(tuple(ended), is_empty)

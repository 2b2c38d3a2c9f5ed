"""Real servers that get nothing new any more, and stay until their connections have ended. Pure.

As kube-proxy's graceful termination: only for TCP, since UDP has no end and SCTP clients notice. IPVS cuts a connection
whose real server is taken away (net.ipv4.vs.expire_nodest_conn).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bridgehead.network.ipvs import Destination, Load, Server

LONGEST_SECONDS = 3600.0  # a pod may take this long to end; afterwards its connections are cut
CHECK_SECONDS = 5.0


class Over(NamedTuple):
    """What is to be taken away: real servers, and whether the virtual one is to follow them."""

    destinations: tuple[Destination, ...]
    server: bool


class Draining:
    """Who waits for what. Times are those of one clock, whichever."""

    def __init__(self) -> None:
        self._waiting: dict[Server, dict[Destination, float]] = {}
        self._closing: set[Server] = set()
        self._checked = float("-inf")

    def __contains__(self, item: tuple[Server, Destination]) -> bool:
        server, destination = item
        return destination in self._waiting.get(server, ())

    def is_closing(self, server: Server) -> bool:
        return server in self._closing

    def add(self, server: Server, destination: Destination, now: float) -> None:
        self._waiting.setdefault(server, {}).setdefault(destination, now + LONGEST_SECONDS)

    def close(self, server: Server) -> None:
        """Let the virtual server go with the last of its real servers."""
        self._closing.add(server)

    def keep(self, server: Server) -> None:
        """The virtual server is wanted again."""
        self._closing.discard(server)

    def forget(self, server: Server, destination: Destination) -> None:
        """The real server is wanted again, or gone."""
        waiting = self._waiting.get(server, {})
        waiting.pop(destination, None)
        if not waiting:
            self._waiting.pop(server, None)

    def forget_server(self, server: Server) -> None:
        """It is gone, with all that was behind it."""
        self._waiting.pop(server, None)
        self._closing.discard(server)

    def clear(self) -> None:
        self._waiting.clear()
        self._closing.clear()

    def due(self, now: float) -> tuple[Server, ...]:
        """The virtual servers to look at; none if that was done a moment ago."""
        if not (self._waiting or self._closing) or now - self._checked < CHECK_SECONDS:
            return ()
        self._checked = now
        return tuple(dict.fromkeys((*self._waiting, *self._closing)))

    def over(self, server: Server, loads: Mapping[Destination, Load], now: float) -> Over:
        """What is to be taken away of `server`, behind which there is what `loads` tells; it is forgotten here."""
        found = []
        for destination, deadline in list(self._waiting.get(server, {}).items()):
            load = loads.get(destination)
            if load is None or not load.connections or now >= deadline:
                self.forget(server, destination)
                if load is not None:
                    found.append(destination)
        is_empty = server in self._closing and loads.keys() <= set(found)
        if is_empty:
            self._closing.discard(server)
        return Over(tuple(found), is_empty)

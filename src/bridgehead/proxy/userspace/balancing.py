"""Which backend a new connection gets: the next one in turn, or the one that served the client last. Pure.

`tcp.py` and `udp.py` ask for each connection and each session. As kube-proxy's userspace mode had it
(pkg/proxy/userspace/roundrobin.go, v1.25): one turn for each listener, one memory of clients for each Service port, and
a client that was led to a backend that does not answer gets another one.
"""

from __future__ import annotations

from collections.abc import Collection, Container

from bridgehead.proxy.frontends import Backend

Place = tuple[str, int]  # address, port

REMEMBERED = 65_536  # clients of one Service port; the nftables mode's sets hold as many


class Memory:
    """Which backend served the clients of one Service port last, at whichever of its addresses."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[Place, float]] = {}  # oldest first

    def __len__(self) -> int:
        return len(self._last)

    def recall(self, client: str, seconds: int, now: float) -> Place | None:
        """Who served the client within so many seconds. Times are of any one clock."""
        found = self._last.get(client)
        if found is None:
            return None
        place, when = found
        if now - when < seconds:
            return place
        del self._last[client]
        return None

    def note(self, client: str, place: Place, now: float) -> None:
        self._last.pop(client, None)
        if len(self._last) >= REMEMBERED:
            del self._last[next(iter(self._last))]
        self._last[client] = (place, now)

    def forget(self, places: Container[Place]) -> None:
        """These backends went; who comes back is not theirs any more."""
        self._last = {client: entry for client, entry in self._last.items() if entry[0] not in places}

    def forget_client(self, client: str) -> None:
        self._last.pop(client, None)


class Balancer:
    """The backends of one listener in turn. `seconds`: how long clients stay with theirs, None: not at all."""

    def __init__(self, backends: Collection[Backend], seconds: int | None, memory: Memory, first: int = 0) -> None:
        """`first` is whose turn it is at the beginning, so that the proxies of many nodes need not begin alike."""
        self.places: list[Place] = _places(backends)
        self._known = frozenset(self.places)
        self._seconds = seconds
        self._memory = memory
        self._next = first

    def change(self, backends: Collection[Backend], seconds: int | None, memory: Memory) -> frozenset[Place]:
        """Use these from now on. Returns the backends that went."""
        before = self._known
        self.places = _places(backends)
        self._known = frozenset(self.places)
        self._seconds = seconds
        self._memory = memory
        gone = before - self._known
        if gone:
            self._memory.forget(gone)
        return gone

    def choose(self, client: str, now: float, tried: Collection[Place] = ()) -> Place | None:
        """Where to connect for a client, having `tried` some in vain. None: there is no backend."""
        if not self.places:
            return None
        if self._seconds is not None and not tried:
            place = self._memory.recall(client, self._seconds, now)
            if place in self._known:
                return place
        for _ in range(len(tried) + 1):
            place = self.places[self._next % len(self.places)]
            self._next = (self._next + 1) % len(self.places)
            if place not in tried:
                break
        return place

    def served(self, client: str, place: Place, now: float) -> None:
        """The client was connected there."""
        if self._seconds is not None:
            self._memory.note(client, place, now)

    def failed(self, client: str) -> None:
        """Where the client was led, nobody answers any more."""
        self._memory.forget_client(client)


def _places(backends: Collection[Backend]) -> list[Place]:
    return [(backend.address, backend.port) for backend in backends]

"""The choice of a backend for a new connection: the next one in turn, or the one that served the client last.

Pure: no I/O, no clock, no randomness. `tcp.py` and `udp.py` ask for each connection and each session. As in
kube-proxy's userspace mode (pkg/proxy/userspace/roundrobin.go, v1.25) each listener has a turn, each Service port
remembers its clients, and a client whose backend does not answer gets another one. A target is a backend's address and
port.
"""

from __future__ import annotations

from collections.abc import Collection, Container

from bridgehead.proxy.address_texts import AddressPort
from bridgehead.proxy.frontends import Backend

MOST_CLIENTS = 65_536  # that a Service port remembers, as in the nftables mode


class Memory:
    """The backends that served the clients of one Service port last, at any of its addresses."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[AddressPort, float]] = {}  # oldest first

    def __len__(self) -> int:
        return len(self._last)

    def recall(self, client: str, seconds: int, now: float) -> AddressPort | None:
        """Return the target that served the client within the last `seconds`. Times are of any one clock."""
        found = self._last.get(client)
        if found is None:
            return None
        target, when = found
        if now - when < seconds:
            return target
        del self._last[client]
        return None

    def record(self, client: str, target: AddressPort, now: float) -> None:
        """Remember the client's target; forget the client that was served least recently if there are too many."""
        self._last.pop(client, None)
        if len(self._last) >= MOST_CLIENTS:
            del self._last[next(iter(self._last))]
        self._last[client] = (target, now)

    def forget(self, targets: Container[AddressPort]) -> None:
        """Forget the clients of removed targets."""
        self._last = {client: entry for client, entry in self._last.items() if entry[0] not in targets}

    def forget_client(self, client: str) -> None:
        self._last.pop(client, None)


class Balancer:
    """The backends of one listener, in turn. `seconds`: the affinity timeout; None: clients have no affinity."""

    def __init__(self, backends: Collection[Backend], seconds: int | None, memory: Memory, first: int = 0) -> None:
        """`first`: the index of the first backend, so that not all nodes' proxies begin with the same one."""
        self.targets: list[AddressPort] = _targets(backends)
        self._known = frozenset(self.targets)
        self._seconds = seconds
        self._memory = memory
        self._next = first

    def change(self, backends: Collection[Backend], seconds: int | None, memory: Memory) -> frozenset[AddressPort]:
        """Use other backends from now on. Returns the removed ones."""
        before = self._known
        self.targets = _targets(backends)
        self._known = frozenset(self.targets)
        self._seconds = seconds
        self._memory = memory
        gone = before - self._known
        if gone:
            self._memory.forget(gone)
        return gone

    def choose(self, client: str, now: float, tried: Collection[AddressPort] = ()) -> AddressPort | None:
        """Return the target for a client, for which those in `tried` have failed. None: there is no backend."""
        if not self.targets:
            return None
        if self._seconds is not None and not tried:
            target = self._memory.recall(client, self._seconds, now)
            if target in self._known:
                return target
        for _ in range(len(tried) + 1):
            target = self.targets[self._next % len(self.targets)]
            self._next = (self._next + 1) % len(self.targets)
            if target not in tried:
                break
        return target

    def on_connected(self, client: str, target: AddressPort, now: float) -> None:
        """Remember the target that the client was connected to, if clients have affinity."""
        if self._seconds is not None:
            self._memory.record(client, target, now)

    def on_failed(self, client: str) -> None:
        """Forget the client's target, which does not answer any more."""
        self._memory.forget_client(client)


def _targets(backends: Collection[Backend]) -> list[AddressPort]:
    return [(backend.address, backend.port) for backend in backends]

"""The proxy's health as kube-proxy defines it: it keeps up with changes. `agent.py` updates, `serving.py` serves it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from bridgehead.proxy.address_texts import Family


class ProxyHealth:
    """Healthy: no change has waited longer than `timeout` seconds. `now` returns epoch seconds.

    A proxy that starts while the API server is unreachable has no changes, and so is alive: a restart would not help.
    """

    def __init__(self, timeout: float, now: Callable[[], float]) -> None:
        self._timeout = timeout
        self.now = now
        self._oldest_queued: float | None = None
        self._updated: dict[Family, float] = {}
        self.is_node_eligible = True  # false while the node is being removed, so that load balancers stop using it

    def queued(self) -> None:
        """Record that a change waits."""
        if self._oldest_queued is None:
            self._oldest_queued = self.now()

    def updated(self, families: Iterable[Family]) -> None:
        """Record that the kernel has all changes of these families, and that there are rules of no other."""
        self._oldest_queued = None
        self._updated = dict.fromkeys(families, self.now())

    @property
    def updates(self) -> Mapping[Family, float]:
        """Times at which the kernel last had all changes of each family; {} before the first rules."""
        return self._updated

    @property
    def is_alive(self) -> bool:
        return self._oldest_queued is None or self.now() - self._oldest_queued < self._timeout

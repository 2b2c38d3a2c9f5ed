"""The proxy's health in kube-proxy's meaning: it keeps up with changes. `agent.py` reports; `serving.py` shows it."""

from __future__ import annotations

from collections.abc import Callable


class ProxyHealth:
    """Healthy: no change has waited longer than `timeout` seconds. `now` is the time since the epoch, in seconds.

    Who starts while the API server is away knows of none: to be restarted would not help it.
    """

    def __init__(self, timeout: float, now: Callable[[], float]) -> None:
        self._timeout = timeout
        self._now = now
        self._oldest_queued: float | None = None
        self.last_updated: float = 0.0
        self.is_node_eligible = True  # false while the node is being removed: balancers then take it out

    def queued(self) -> None:
        if self._oldest_queued is None:
            self._oldest_queued = self._now()

    def updated(self) -> None:
        """Everything that was queued is in the kernel."""
        self._oldest_queued = None
        self.last_updated = self._now()

    @property
    def is_alive(self) -> bool:
        return self._oldest_queued is None or self._now() - self._oldest_queued < self._timeout

"""The proxy's metrics, under the names kube-proxy gives them, and its health in kube-proxy's meaning.

`agent.py` reports to both; `serving.py` shows them.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SYNC_BUCKETS = tuple(0.001 * 2**n for n in range(15))
_PROGRAMMING_BUCKETS = (0.25, 0.5, *range(1, 60), *range(60, 120, 5), *range(120, 301, 30))


class ProxyMetrics:
    """One registry of its own, so that several proxies fit in one process (tests, benchmarks)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.sync_seconds = self._histogram("sync_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds")
        self.full_sync_seconds = self._histogram(
            "sync_full_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds for full resyncs"
        )
        self.partial_sync_seconds = self._histogram(
            "sync_partial_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds for partial resyncs"
        )
        self.programming_seconds = Histogram(
            "kubeproxy_network_programming_duration_seconds",
            "In Cluster Network Programming Latency in seconds",
            buckets=_PROGRAMMING_BUCKETS,
            registry=self.registry,
        )
        self.last_sync = self._gauge("sync_proxy_rules_last_timestamp_seconds", "The last time rules were synced")
        self.last_queued = self._gauge(
            "sync_proxy_rules_last_queued_timestamp_seconds", "The last time a sync of proxy rules was queued"
        )
        self.service_changes = self._counter("sync_proxy_rules_service_changes", "Proxy rules Service changes")
        self.endpoint_changes = self._counter("sync_proxy_rules_endpoint_changes", "Proxy rules Endpoint changes")
        self.pending = self._gauge("sync_proxy_rules_endpoint_changes_pending", "Services that wait for a sync")
        self.failures = self._counter(
            "sync_proxy_rules_nftables_sync_failures", "Number of nftables sync failures by the proxy"
        )
        self.repairs = Counter(
            "bridgehead_proxy_repairs",
            "Times that somebody else's change of our rules was put right",
            registry=self.registry,
        )
        self.elements = Counter(
            "bridgehead_proxy_elements", "Map elements sent to the kernel or deleted from it", registry=self.registry
        )

    def exposition(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self.registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(f"kubeproxy_{name}", text, buckets=_SYNC_BUCKETS, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"kubeproxy_{name}", text, registry=self.registry)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"kubeproxy_{name}", text, registry=self.registry)


class ProxyHealth:
    """Healthy: no change has waited longer than `timeout` seconds. `now` is the time since the epoch, in seconds."""

    def __init__(self, timeout: float, now: Callable[[], float]) -> None:
        self._timeout = timeout
        self._now = now
        self._oldest_queued: float | None = now()  # nothing is programmed yet
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

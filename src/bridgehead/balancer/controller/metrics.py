"""The controller's metrics, under MetalLB's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import Counter, Gauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from bridgehead.balancer.allocation.pool_addresses import PoolAddresses
from bridgehead.client.metrics import CLIENT_METRICS
from bridgehead.exposition.common_metrics import new_registry


class ControllerMetrics:
    """All metrics in a registry of their own. `spaces` returns the pools at the time of a scrape."""

    def __init__(self) -> None:
        self.registry = new_registry(CLIENT_METRICS)
        self.updates = self._counter("updates", "Number of k8s object updates that have been processed.")
        self.update_errors = self._counter("update_errors", "Number of k8s object updates that failed for some reason.")
        self.config_loaded = self._gauge("config_loaded_bool", "1 if a configuration was successfully loaded.")
        self.config_stale = self._gauge("config_stale_bool", "1 if running on a stale configuration.")

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"metallb_k8s_client_{name}", text, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"metallb_k8s_client_{name}", text, registry=self.registry)

    def watch(self, spaces: Callable[[], Iterable[PoolAddresses]]) -> None:
        """Report the pools that `spaces` returns."""
        self.registry.register(_PoolCollector(spaces))


class _PoolCollector(Collector):
    """Numbers of addresses by pool: of both families, and of each."""

    def __init__(self, spaces: Callable[[], Iterable[PoolAddresses]]) -> None:
        self._spaces = spaces

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for prefix, versions in (("", (4, 6)), ("ipv4_", (4,)), ("ipv6_", (6,))):
            total, in_use = (
                GaugeMetricFamily(f"metallb_allocator_{prefix}{name}", text, labels=["pool"])
                for name, text in (
                    ("addresses_total", "Number of usable IP addresses, per pool"),
                    ("addresses_in_use_total", "Number of IP addresses in use, per pool"),
                )
            )
            for space in self._spaces():
                total.add_metric([space.pool.name], sum(space.capacity(version) for version in versions))
                in_use.add_metric([space.pool.name], sum(space.in_use[version] for version in versions))
            yield total
            yield in_use

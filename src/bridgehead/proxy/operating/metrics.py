"""The proxy's metrics, under kube-proxy's names. `agent.py` updates them, `serving.py` serves them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.addresses import Family
from bridgehead.proxy.frontends import Publication, ServiceFrontends, Verdict

# Go's client library has no `_created` series, so dashboards do not use them.
disable_created_metrics()  # type: ignore[no-untyped-call]

_SYNC_BUCKETS = tuple(0.001 * 2**n for n in range(15))
_PROGRAMMING_BUCKETS = (0.25, 0.5, *range(1, 60), *range(60, 120, 5), *range(120, 301, 30))


# kube-proxy's names of failed transactions, by mode: of all rules, and of a change.
_FAILURES = {
    "iptables": ("sync_proxy_rules_iptables_restore_failures", "sync_proxy_rules_iptables_partial_restore_failures"),
    "ipvs": ("sync_proxy_rules_iptables_restore_failures", "sync_proxy_rules_iptables_partial_restore_failures"),
}
_OTHER_FAILURES = ("sync_proxy_rules_nftables_sync_failures", "sync_proxy_rules_nftables_partial_sync_failures")


class ProxyMetrics:
    """All metrics in a registry of their own: tests have several proxies in a process. `mode` is part of some names."""

    def __init__(self, mode: str = "nftables", now: Callable[[], float] = time.time) -> None:
        self._now = now
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # process_*: kube-proxy's dashboards use them
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
        self.services_pending = self._gauge("sync_proxy_rules_service_changes_pending", "Pending Service changes")
        self.pending = self._gauge("sync_proxy_rules_endpoint_changes_pending", "Pending Endpoint changes")
        whole, partial = _FAILURES.get(mode, _OTHER_FAILURES)
        self.failures = self._counter(whole, "Number of syncs of all rules that failed")
        self.partial_failures = self._counter(partial, "Number of changes of rules that failed")
        self.without_local = Gauge(
            "kubeproxy_sync_proxy_rules_no_local_endpoints_total",  # a gauge, though
            "Number of services with a Local traffic policy and no endpoints",
            ("traffic_policy",),
            registry=self.registry,
        )
        for policy in ("internal", "external"):
            self.without_local.labels(policy)
        self.flow_seconds = Histogram(
            "kubeproxy_conntrack_reconciler_sync_duration_seconds",
            "ReconcileConntrackFlowsLatency latency in seconds",
            ("ip_family",),
            buckets=_SYNC_BUCKETS,
            registry=self.registry,
        )
        self.flows_deleted = Counter(
            "kubeproxy_conntrack_reconciler_deleted_entries",
            "Cumulative conntrack flows deleted by conntrack reconciler",
            ("ip_family",),
            registry=self.registry,
        )
        self.healthz = self._codes("proxy_healthz", "Cumulative proxy healthz HTTP status")
        self.livez = self._codes("proxy_livez", "Cumulative proxy livez HTTP status")
        self.repairs = Counter(
            "bridgehead_proxy_repairs",
            "Repairs of rules that another program changed",
            registry=self.registry,
        )
        self.elements = Counter(
            "bridgehead_proxy_elements", "Map elements sent to the kernel or deleted from it", registry=self.registry
        )
        self.refused = Gauge(
            "bridgehead_proxy_refused_services",
            "Services whose rules the kernel refuses",
            registry=self.registry,
        )

    def record_sync(self, elements: int, seconds: float, *, is_full: bool, refused: int) -> None:
        """Record that the kernel has all rules but those of `refused` Services."""
        self.elements.inc(elements)
        self.sync_seconds.observe(seconds)
        (self.full_sync_seconds if is_full else self.partial_sync_seconds).observe(seconds)
        self.refused.set(refused)

    def count_rules(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """Add the metric of rules by table. `counts` is called for each scrape."""
        gauge = Gauge(
            "kubeproxy_sync_proxy_rules_iptables_total",  # a gauge, though
            "Total number of iptables rules owned by kube-proxy",
            ("table",),
            registry=self.registry,
        )
        for table in counts():
            gauge.labels(table).set_function(lambda table=table: counts()[table])  # type: ignore[misc]

    def record_up_to_date(self) -> None:
        """Record that the kernel has all queued changes, even if it needed none: alerts compare the timestamps."""
        self.last_sync.set(self._now())

    def record_flow_scan(self, family: Family, removed: int, seconds: float) -> None:
        """Record a scan of the family's flows."""
        label = f"IPv{family}"
        self.flow_seconds.labels(label).observe(seconds)
        self.flows_deleted.labels(label).inc(removed)

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(f"kubeproxy_{name}", text, buckets=_SYNC_BUCKETS, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"kubeproxy_{name}", text, registry=self.registry)

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"kubeproxy_{name}", text, registry=self.registry)

    def _codes(self, name: str, text: str) -> Counter:
        counter = Counter(f"kubeproxy_{name}", text, ("code",), registry=self.registry)
        for code in ("200", "503"):
            counter.labels(code)
        return counter


class WithoutLocalEndpoints:
    """The number of Services with a traffic policy Local that have endpoints, but none on this node."""

    def __init__(self, metrics: ProxyMetrics) -> None:
        self._gauges = {policy: metrics.without_local.labels(policy) for policy in ("internal", "external")}
        self._services: dict[str, set[ObjectKey]] = {policy: set() for policy in self._gauges}

    def record(self, key: ObjectKey, compiled: ServiceFrontends | None) -> None:
        lacking = set()
        for frontend in compiled.frontends if compiled is not None else ():
            if frontend.is_local and not frontend.backends and frontend.when_empty is Verdict.DROP:
                is_internal = frontend.published_as is Publication.CLUSTER_IP
                lacking.add("internal" if is_internal else "external")
        for policy, services in self._services.items():
            if (key in services) != (policy in lacking):
                services.symmetric_difference_update((key,))
                self._gauges[policy].set(len(services))

"""The proxy's metrics, under kube-proxy's names. `agent.py` updates them, `serving.py` serves them.

kube-proxy has a proxier for each address family, whose metrics have the label `ip_family`. Here one sync programs both
families, and counts for each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

from bridgehead.client.metrics import CLIENT_METRICS
from bridgehead.exposition.common_metrics import new_registry
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.address_texts import Family
from bridgehead.proxy.frontends import Publication, ServiceFrontends, Verdict

_SYNC_BUCKETS = tuple(0.001 * 2**n for n in range(15))
_PROGRAMMING_BUCKETS = (0.25, 0.5, *range(1, 60), *range(60, 120, 5), *range(120, 301, 30))


# kube-proxy's names of failed transactions, by mode: of all rules, and of a change.
_FAILURES = {
    "iptables": ("sync_proxy_rules_iptables_restore_failures", "sync_proxy_rules_iptables_partial_restore_failures"),
    "ipvs": ("sync_proxy_rules_iptables_restore_failures", "sync_proxy_rules_iptables_partial_restore_failures"),
}
_OTHER_FAILURES = ("sync_proxy_rules_nftables_sync_failures", "sync_proxy_rules_nftables_partial_sync_failures")


_FAMILY = "ip_family"


def label_of(family: Family) -> str:
    """Return the value of the label `ip_family`."""
    return f"IPv{family}"


class EachFamily:
    """A metric with the label `ip_family`, of which the same is recorded for each family."""

    def __init__(self, metric: Any, families: Sequence[Family]) -> None:
        self._children = [metric.labels(label_of(family)) for family in families]

    def inc(self, amount: int = 1) -> None:
        for child in self._children:
            child.inc(amount)

    def set(self, value: float) -> None:
        for child in self._children:
            child.set(value)

    def observe(self, value: float) -> None:
        for child in self._children:
            child.observe(value)


class ProxyMetrics:
    """All metrics in a registry of their own: tests have several proxies in a process. `mode` is part of some names."""

    def __init__(
        self,
        mode: str = "nftables",
        families: Sequence[Family] = (4, 6),
        now: Callable[[], float] = time.time,
    ) -> None:
        self._now = now
        self._families = tuple(families)
        self.registry = new_registry(CLIENT_METRICS)
        self.sync_seconds = self._histogram("sync_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds")
        self.full_sync_seconds = self._histogram(
            "sync_full_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds for full resyncs"
        )
        self.partial_sync_seconds = self._histogram(
            "sync_partial_proxy_rules_duration_seconds", "SyncProxyRules latency in seconds for partial resyncs"
        )
        self.programming_seconds = self._histogram(
            "network_programming_duration_seconds",
            "In Cluster Network Programming Latency in seconds",
            _PROGRAMMING_BUCKETS,
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
            ("traffic_policy", "ip_family"),
            registry=self.registry,
        )
        for policy in ("internal", "external"):
            for family in self._families:
                self.without_local.labels(policy, label_of(family))
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

    def count_rules(self, counts: Callable[[Family], Mapping[str, int]]) -> None:
        """Add the metric of rules by table. `counts` is called for each scrape."""
        gauge = Gauge(
            "kubeproxy_sync_proxy_rules_iptables_total",  # a gauge, though
            "Total number of iptables rules owned by kube-proxy",
            ("table", "ip_family"),
            registry=self.registry,
        )
        for family in self._families:
            for table in counts(family):
                gauge.labels(table, label_of(family)).set_function(
                    lambda table=table, family=family: counts(family)[table]  # type: ignore[misc]
                )

    def record_up_to_date(self) -> None:
        """Record that the kernel has all queued changes, even if it needed none: alerts compare the timestamps."""
        self.last_sync.set(self._now())

    def record_flow_scan(self, family: Family, removed: int, seconds: float) -> None:
        """Record a scan of the family's flows."""
        label = label_of(family)
        self.flow_seconds.labels(label).observe(seconds)
        self.flows_deleted.labels(label).inc(removed)

    def _histogram(self, name: str, text: str, buckets: Sequence[float] = _SYNC_BUCKETS) -> EachFamily:
        made = Histogram(f"kubeproxy_{name}", text, (_FAMILY,), buckets=buckets, registry=self.registry)
        return EachFamily(made, self._families)

    def _gauge(self, name: str, text: str) -> EachFamily:
        return EachFamily(Gauge(f"kubeproxy_{name}", text, (_FAMILY,), registry=self.registry), self._families)

    def _counter(self, name: str, text: str) -> EachFamily:
        return EachFamily(Counter(f"kubeproxy_{name}", text, (_FAMILY,), registry=self.registry), self._families)

    def _codes(self, name: str, text: str) -> Counter:
        counter = Counter(f"kubeproxy_{name}", text, ("code",), registry=self.registry)
        for code in ("200", "503"):
            counter.labels(code)
        return counter


class WithoutLocalEndpoints:
    """The number of Services with a traffic policy Local that have endpoints of a family, but none on this node."""

    def __init__(self, metrics: ProxyMetrics) -> None:
        self._gauge = metrics.without_local
        self._services: dict[tuple[str, Family], set[ObjectKey]] = {}

    def record(self, key: ObjectKey, compiled: ServiceFrontends | None) -> None:
        lacking = set()
        for frontend in compiled.frontends if compiled is not None else ():
            if frontend.is_local and not frontend.backends and frontend.when_empty is Verdict.DROP:
                is_internal = frontend.published_as is Publication.CLUSTER_IP
                lacking.add(("internal" if is_internal else "external", frontend.key.family))
        for kind in lacking | self._services.keys():
            services = self._services.setdefault(kind, set())
            if (key in services) != (kind in lacking):
                services.symmetric_difference_update((key,))
                policy, family = kind
                self._gauge.labels(policy, label_of(family)).set(len(services))

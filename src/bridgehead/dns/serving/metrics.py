"""Metrics, under the names and labels of CoreDNS where it has them.

Queries are counted in plain numbers (`counters.py`), which are read here when the page is requested. CoreDNS' labels
`zone` and `view` are left out: answers are looked up without regard to server blocks.
"""

from __future__ import annotations

from collections import Counter as Sums
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from bridgehead import __version__
from bridgehead.client.metrics import CLIENT_METRICS
from bridgehead.dns.answering import Resolver, Responder
from bridgehead.dns.config import DnsConfig
from bridgehead.dns.counters import DURATION_BOUNDS, SIZE_BOUNDS, Durations, count_sizes, cumulate
from bridgehead.dns.messages import wire
from bridgehead.dns.upstreams import Cache, Forwarder
from bridgehead.exposition.common_metrics import new_registry
from bridgehead.objects.addresses import join_host_port

from .server import DnsServer

_PROGRAMMING_BUCKETS = tuple(0.001 * 2**n for n in range(20))
_IPV4, _IPV6 = "1", "2"  # families as CoreDNS numbers them

# Plug-ins of CoreDNS that a server without a Corefile stands for.
_PLUGINS = ("cache", "errors", "forward", "health", "kubernetes", "prometheus", "ready")
_WITHOUT_COREFILE = tuple((".", name) for name in _PLUGINS)

LabelValues = tuple[str, ...]


class DnsMetrics:
    """The metrics of one server, in a registry of its own: tests and benchmarks run several servers in one process."""

    def __init__(self) -> None:
        self.registry = new_registry(CLIENT_METRICS)
        programming = Histogram(
            "coredns_kubernetes_dns_programming_duration_seconds",
            "In Cluster DNS Programming Latency in seconds",
            labelnames=["service_kind"],
            buckets=_PROGRAMMING_BUCKETS,
            registry=self.registry,
        )
        # Headless Services are the only ones with endpoints in the zone.
        self.programming_seconds = programming.labels("headless_with_selector")
        self.failed_reloads = Counter(
            "coredns_reload_failed", "Counter of the number of failed reload attempts.", registry=self.registry
        )

    def watch(self, instance: Callable[[], RunningInstance], servers: Iterable[DnsServer]) -> None:
        """Add the counters of the servers, and of the instance that `instance` returns, to the page."""
        self.registry.register(_Collector(instance, tuple(servers)))


class RunningInstance(Protocol):
    """The part of `instance.Instance` that has counters."""

    @property
    def config(self) -> DnsConfig: ...
    @property
    def responder(self) -> Responder: ...
    @property
    def cache(self) -> Cache: ...
    @property
    def resolver(self) -> Resolver: ...
    @property
    def forwarders(self) -> tuple[Forwarder, ...]: ...


class _Collector:
    """A collector of prometheus_client."""

    def __init__(self, instance: Callable[[], RunningInstance], servers: tuple[DnsServer, ...]) -> None:
        self._instance = instance
        self._servers = servers

    def collect(self) -> Iterable[Metric]:
        instance = self._instance()
        yield _build_info()
        yield self._plugins(instance.config)
        yield CounterMetricFamily(
            "coredns_panics", "A metrics that counts the number of panics.", instance.resolver.panics
        )
        yield from self._messages()
        yield from self._sizes_and_times()
        yield from _cache(instance.cache)
        yield from _upstreams(instance.forwarders)
        yield CounterMetricFamily(
            "coredns_forward_max_concurrent_rejects",
            "Counter of the number of queries rejected because the concurrent queries were at maximum.",
            sum(server.overflows for server in self._servers),
        )
        yield GaugeMetricFamily(
            "coredns_hosts_entries",
            "The combined number of entries in hosts and Corefile.",
            sum(len(names) for hosts in instance.config.hosts for _, names in hosts.entries),
        )
        yield GaugeMetricFamily(
            "bridgehead_dns_answers", "Precomputed answers of the cluster's zone.", len(instance.responder.zone)
        )

    def _plugins(self, config: DnsConfig) -> Metric:
        """Return the directives of the Corefile by server block; without one, those that it would need."""
        found = GaugeMetricFamily(
            "coredns_plugin_enabled",
            "A metric that indicates whether a plugin is enabled on per server and zone basis.",
            labels=["server", "zone", "view", "name"],
        )
        servers = dict.fromkeys(map(_server_name, self._servers))
        for server in servers:
            for zone, name in config.directives or _WITHOUT_COREFILE:
                found.add_metric([server, zone, "", name], 1)
        return found

    def _messages(self) -> Iterator[Metric]:
        requests, replies, malformed = Sums[LabelValues](), Sums[LabelValues](), 0
        for server in self._servers:
            family = _IPV6 if server.is_ipv6 else _IPV4
            for protocol, traffic in server.traffic.items():
                malformed += traffic.malformed
                for number, count in enumerate(traffic.queries):
                    kind = wire.TYPE_NAMES.get(number, "other")
                    requests[_server_name(server), protocol, family, kind] += count
                for number, count in enumerate(traffic.rcodes):
                    rcode = wire.RCODE_NAMES[number] if number < len(wire.RCODE_NAMES) else str(number)
                    replies[_server_name(server), rcode] += count
        yield _counters(
            "coredns_dns_requests",
            "Counter of DNS requests made per server, protocol, family and type.",
            ("server", "proto", "family", "type"),
            requests,
        )
        yield _counters("coredns_dns_responses", "Counter of response status codes.", ("server", "rcode"), replies)
        yield CounterMetricFamily("bridgehead_dns_malformed", "Messages that were not valid queries.", malformed)

    def _sizes_and_times(self) -> Iterator[Metric]:
        times = HistogramMetricFamily(
            "coredns_dns_request_duration_seconds",
            "Histogram of the time (in seconds) each request took per server.",
            labels=["server"],
        )
        requests = HistogramMetricFamily(
            "coredns_dns_request_size_bytes",
            "Size of the request in bytes per server and protocol.",
            labels=["server", "proto"],
        )
        replies = HistogramMetricFamily(
            "coredns_dns_response_size_bytes",
            "Size of the returned response in bytes per server and protocol.",
            labels=["server", "proto"],
        )
        by_name: dict[str, list[DnsServer]] = {}
        for server in self._servers:
            by_name.setdefault(_server_name(server), []).append(server)
        for name, servers in by_name.items():
            _add_times(times, [name], [traffic.durations for server in servers for traffic in server.traffic.values()])
            for protocol in ("udp", "tcp"):
                traffic = [server.traffic[protocol] for server in servers]
                _add_sizes(requests, [name, protocol], sum((Sums(one.query_sizes) for one in traffic), Sums[int]()))
                _add_sizes(replies, [name, protocol], sum((Sums(one.reply_sizes) for one in traffic), Sums[int]()))
        yield from (times, requests, replies)


def _build_info() -> Metric:
    info = GaugeMetricFamily(
        "coredns_build_info",
        "A metric with a constant '1' value labeled by version, revision, and goversion from which CoreDNS was built.",
        labels=["goversion", "revision", "version"],
    )
    info.add_metric(["", "", f"bridgehead-{__version__}"], 1)
    return info


def _cache(cache: Cache) -> Iterator[Metric]:
    def by_type(name: str, text: str, success: int, denial: int) -> Metric:
        return _counters(name, text, ("type",), {("success",): success, ("denial",): denial})

    yield by_type("coredns_cache_hits", "The count of cache hits.", cache.hits, cache.negative_hits)
    yield by_type("coredns_cache_evictions", "The count of cache evictions.", cache.evictions, cache.negative_evictions)
    entries = GaugeMetricFamily("coredns_cache_entries", "The number of elements in the cache.", labels=["type"])
    entries.add_metric(["success"], len(cache) - cache.negatives)
    entries.add_metric(["denial"], cache.negatives)
    yield entries
    requests = cache.hits + cache.negative_hits + cache.misses
    yield CounterMetricFamily("coredns_cache_requests", "The count of cache requests.", requests)
    yield CounterMetricFamily("coredns_cache_misses", "The count of cache misses.", cache.misses)
    yield CounterMetricFamily(
        "coredns_cache_prefetch", "The number of times the cache has prefetched a cached item.", cache.prefetches
    )
    yield CounterMetricFamily(
        "coredns_cache_served_stale", "The number of requests served from stale cache entries.", cache.stale_hits
    )


def _upstreams(forwarders: Sequence[Forwarder]) -> Iterator[Metric]:
    """Sums by server: one server may belong to several forwarders."""
    asked, failed = Sums[LabelValues](), Sums[LabelValues]()
    durations: dict[LabelValues, list[Durations]] = {}
    for forwarder in forwarders:
        for server in forwarder.servers:
            asked[(str(server),)] += forwarder.requests[server]
            failed[(str(server),)] += forwarder.failures[server]
        for (server, code), found in forwarder.durations.items():
            rcode = wire.RCODE_NAMES[code] if code < len(wire.RCODE_NAMES) else str(code)
            durations.setdefault(("forward", str(server), rcode), []).append(found)
    yield _counters("coredns_forward_requests", "Counter of requests made per upstream.", ("to",), asked)
    yield _counters(
        "bridgehead_dns_forward_failures", "Queries to which an upstream gave no valid reply.", ("to",), failed
    )
    times = HistogramMetricFamily(
        "coredns_proxy_request_duration_seconds",
        "Histogram of the time each request took.",
        labels=["proxy_name", "to", "rcode"],
    )
    for values, several in durations.items():
        _add_times(times, values, several)
    yield times
    yield CounterMetricFamily(
        "coredns_forward_healthcheck_broken",
        "Counter of the number of complete failures of the healthchecks.",
        sum(forwarder.all_failed for forwarder in forwarders),
    )


def _server_name(server: DnsServer) -> str:
    return f"dns://{join_host_port(*server.address)}"


def _counters(name: str, text: str, labels: Sequence[str], counts: Mapping[LabelValues, int]) -> Metric:
    """Return the metric with the counts that are not 0."""
    metric = CounterMetricFamily(name, text, labels=labels)
    for values, count in counts.items():
        if count:
            metric.add_metric(values, count)
    return metric


def _add_times(metric: HistogramMetricFamily, values: Sequence[str], several: Iterable[Durations]) -> None:
    found = list(several)
    counts = [sum(each) for each in zip(*(one.counts() for one in found), strict=True)]
    metric.add_metric(values, cumulate(DURATION_BOUNDS, counts), sum(one.total for one in found))


def _add_sizes(metric: HistogramMetricFamily, values: Sequence[str], sizes: Mapping[int, int]) -> None:
    total = sum(size * times for size, times in sizes.items())
    metric.add_metric(values, cumulate(SIZE_BOUNDS, count_sizes(sizes)), total)

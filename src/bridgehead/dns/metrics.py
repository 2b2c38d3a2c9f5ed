"""The DNS server's metrics, under the names CoreDNS gives them where it has them.

What every query counts is a plain number in `responder.py` and `server.py`, read here when somebody asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from . import wire
from .cache import Cache
from .responder import Responder
from .server import DnsServer
from .tallies import DURATION_BOUNDS, SIZE_BOUNDS, count_sizes, cumulate
from .upstream import Forwarder

_PROGRAMMING_BUCKETS = tuple(0.001 * 2**n for n in range(20))


class DnsMetrics:
    """One registry of its own, so that several servers fit in one process (tests, benchmarks)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.programming_seconds = Histogram(
            "coredns_kubernetes_dns_programming_duration_seconds",
            "In Cluster DNS Programming Latency in seconds",
            buckets=_PROGRAMMING_BUCKETS,
            registry=self.registry,
        )

    def watch(self, engine: Callable[[], Working], servers: Iterable[DnsServer]) -> None:
        """Show the numbers of these from now on; `engine` says which one is at work."""
        self.registry.register(_Numbers(engine, tuple(servers)))

    def exposition(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self.registry)


class Working(Protocol):
    """What has numbers to show: `engine.Engine`."""

    @property
    def responder(self) -> Responder: ...
    @property
    def cache(self) -> Cache: ...
    @property
    def forwarders(self) -> tuple[Forwarder, ...]: ...


class _Numbers:
    def __init__(self, engine: Callable[[], Working], servers: tuple[DnsServer, ...]) -> None:
        self._engine = engine
        self._servers = servers

    def collect(self) -> Iterable[Metric]:
        engine = self._engine()
        responder, cache, counts = engine.responder, engine.cache, engine.responder.counts
        types = CounterMetricFamily("coredns_dns_requests", "Counter of DNS requests made per type.", labels=["type"])
        for number, count in enumerate(counts.queries):
            if count:
                types.add_metric([wire.TYPE_NAMES.get(number, "other")], count)
        yield types
        rcodes = CounterMetricFamily("coredns_dns_responses", "Counter of response status codes.", labels=["rcode"])
        for number, count in enumerate(counts.rcodes):
            if count:
                rcodes.add_metric([wire.RCODE_NAMES[number] if number < 6 else str(number)], count)
        yield rcodes
        protocols = CounterMetricFamily("bridgehead_dns_messages", "Messages received.", labels=["proto"])
        protocols.add_metric(["udp"], sum(server.udp_requests for server in self._servers))
        protocols.add_metric(["tcp"], sum(server.tcp_requests for server in self._servers))
        yield protocols
        yield from self._histograms()
        yield CounterMetricFamily("bridgehead_dns_malformed", "Messages that were no queries.", counts.malformed)
        hits = CounterMetricFamily("coredns_cache_hits", "The count of cache hits.", labels=["type"])
        hits.add_metric(["success"], cache.hits)
        hits.add_metric(["denial"], cache.negative_hits)
        yield hits
        yield CounterMetricFamily("coredns_cache_misses", "The count of cache misses.", cache.misses)
        yield GaugeMetricFamily("coredns_cache_entries", "The number of elements in the cache.", len(cache))
        asked = CounterMetricFamily("coredns_forward_requests", "Counter of requests made per upstream.", labels=["to"])
        failed = CounterMetricFamily(
            "bridgehead_dns_forward_failures", "Questions an upstream gave no sound answer to.", labels=["to"]
        )
        for forwarder in engine.forwarders:
            for server in forwarder.servers:
                asked.add_metric([str(server)], forwarder.requests[server])
                failed.add_metric([str(server)], forwarder.failures[server])
        yield asked
        yield failed
        yield CounterMetricFamily(
            "coredns_forward_max_concurrent_rejects",
            "Counter of the number of queries rejected because the concurrent queries were at maximum.",
            sum(server.overflows for server in self._servers),
        )
        yield GaugeMetricFamily("bridgehead_dns_answers", "Finished answers of the cluster.", len(responder.zone))

    def _histograms(self) -> Iterator[Metric]:
        durations = [server.durations for server in self._servers]
        each = [sum(counts) for counts in zip(*(found.counts() for found in durations), strict=True)]
        yield _histogram(
            "coredns_dns_request_duration_seconds",
            "Histogram of the time (in seconds) each request took.",
            DURATION_BOUNDS,
            each or [0] * (len(DURATION_BOUNDS) + 1),
            sum(found.total for found in durations),
        )
        for name, text, found in (
            ("request", "Size of the request in bytes.", [server.query_sizes for server in self._servers]),
            ("response", "Size of the returned response in bytes.", [server.reply_sizes for server in self._servers]),
        ):
            sizes = sum(map(Counter, found), Counter[int]())
            total = sum(size * times for size, times in sizes.items())
            yield _histogram(f"coredns_dns_{name}_size_bytes", text, SIZE_BOUNDS, count_sizes(sizes), total)


def _histogram(name: str, text: str, bounds: Sequence[float], counts: Sequence[int], total: float) -> Metric:
    return HistogramMetricFamily(name, text, buckets=cumulate(bounds, counts), sum_value=total)

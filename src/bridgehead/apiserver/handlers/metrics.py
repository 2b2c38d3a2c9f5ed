"""The server's metrics, under Kubernetes' names (source: Kubernetes metrics reference)."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from bridgehead.apiserver.http.paths import RequestInfo
from bridgehead.apiserver.http.request import Response

_BUCKETS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2, 3, 5, 10, 30, 60)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("verb", "group", "version", "resource", "subresource")
        self._requests = Counter(
            "apiserver_request_total", "Requests by what they asked for.", (*labels, "code"), registry=self.registry
        )
        self._seconds = Histogram(
            "apiserver_request_duration_seconds",
            "Time until the answer was complete; watches do not count.",
            labels,
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._watches = Gauge("apiserver_longrunning_requests", "Watches that are open.", registry=self.registry)
        # Looking up a child by its labels costs more than counting, and there are few of them.
        self._counters: dict[tuple[str, ...], Counter] = {}
        self._histograms: dict[tuple[str, ...], Histogram] = {}

    def watches(self, change: int) -> None:
        self._watches.inc(change)

    def count(self, info: RequestInfo, code: int, seconds: float | None, *, known: bool) -> None:
        """Count a request. Requests with a path that the server does not have (not `known`) share one set of labels."""
        if known:
            labels = (info.verb.upper(), info.group, info.version, info.resource, info.subresource)
        else:
            labels = ("OTHER", "", "", "", "")
        key = (*labels, str(code))
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self._requests.labels(*key)
        counter.inc()
        if seconds is None:
            return
        histogram = self._histograms.get(labels)
        if histogram is None:
            histogram = self._histograms[labels] = self._seconds.labels(*labels)
        histogram.observe(seconds)

    def render(self) -> Response:
        return Response(200, generate_latest(self.registry), CONTENT_TYPE_LATEST)

"""The server's metrics, under Kubernetes' names (source: Kubernetes metrics reference)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from bridgehead.apiserver.http.paths import RequestInfo
from bridgehead.apiserver.http.request import Response

_BUCKETS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2, 3, 5, 10, 30, 60)
_BOUNDS = (*(str(float(bound)) for bound in _BUCKETS), "+Inf")
_LABELS = ("verb", "group", "version", "resource", "subresource")


class _Durations:
    """Durations of requests with the same labels. `counts` are those of each bucket alone, the last is unbounded."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS) + 1)
        self.seconds = 0.0


class Metrics(Collector):
    """Counts of requests, in plain numbers: those of the client library have locks, which cost more than all else."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self._requests: dict[tuple[str, ...], int] = {}
        self._durations: dict[tuple[str, ...], _Durations] = {}
        self._watches = 0

    def watches(self, change: int) -> None:
        self._watches += change

    def count(self, info: RequestInfo, code: int, seconds: float | None, *, known: bool) -> None:
        """Count a request. Requests with a path that the server does not have (not `known`) share one set of labels."""
        if known:
            labels = (info.verb.upper(), info.group, info.version, info.resource, info.subresource)
        else:
            labels = ("OTHER", "", "", "", "")
        key = (*labels, str(code))
        self._requests[key] = self._requests.get(key, 0) + 1
        if seconds is None:
            return
        durations = self._durations.get(labels)
        if durations is None:
            durations = self._durations[labels] = _Durations()
        durations.counts[bisect_left(_BUCKETS, seconds)] += 1
        durations.seconds += seconds

    def collect(self) -> Iterator[Metric]:
        """Return the numbers as the client library writes them."""
        requests = CounterMetricFamily(
            "apiserver_request_total", "Requests by what they asked for.", labels=[*_LABELS, "code"]
        )
        for key, count in self._requests.items():
            requests.add_metric(key, count)
        durations = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "Time until the answer was complete; watches do not count.",
            labels=_LABELS,
        )
        for labels, one in self._durations.items():
            buckets = list(zip(_BOUNDS, accumulate(one.counts), strict=True))
            durations.add_metric(labels, buckets, one.seconds)
        watches = GaugeMetricFamily("apiserver_longrunning_requests", "Watches that are open.", value=self._watches)
        yield from (requests, durations, watches)

    def render(self) -> Response:
        return Response(200, generate_latest(self.registry), CONTENT_TYPE_LATEST)

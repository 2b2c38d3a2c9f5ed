"""The server's metrics, under Kubernetes' names (source: Kubernetes metrics reference)."""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from bridgehead import GIT_VERSION, KUBERNETES_VERSION, architecture
from bridgehead.apiserver.http.paths import RequestInfo
from bridgehead.apiserver.http.request import Response

_BUCKETS = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5),
    *(2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60),
)
_BOUNDS = (*(str(float(bound)) for bound in _BUCKETS), "+Inf")
_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "dry_run", "component")
_LABELS_OF_STREAMS = ("verb", "group", "version", "resource", "subresource", "scope", "component")
_COMPONENT = "apiserver"

# Metrics name the HTTP method, except for the verbs that share one with another.
_VERBS = {"create": "POST", "update": "PUT", "deletecollection": "DELETE"}
_CONNECT_SUBRESOURCES = frozenset({"attach", "exec", "portforward", "proxy"})
_HEALTH_PATHS = frozenset({"/healthz", "/livez", "/readyz"})

_Labels = tuple[str, ...]
_UNKNOWN: _Labels = ("OTHER", "", "", "", "", "", "")
_DRY_RUN = {"": "", "All": "All"}


def _labels(info: RequestInfo, *, applies: bool) -> _Labels:
    """Return the values of `_LABELS` up to the scope."""
    verb = info.verb
    if not info.is_resource:
        return (
            "GET" if verb == "head" else verb.upper(),
            "",
            "",
            "",
            info.path if info.path in _HEALTH_PATHS else "",
            "",
        )
    if info.subresource in _CONNECT_SUBRESOURCES:
        reported = "CONNECT"
    elif applies:
        reported = "APPLY"
    else:
        reported = _VERBS.get(verb) or verb.upper()
    scope = "resource" if info.name or verb == "create" else "namespace" if info.namespace else "cluster"
    return (reported, info.group, info.version, info.resource, info.subresource, scope)


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
        ProcessCollector(registry=self.registry)  # process_*: dashboards of API servers use them
        self._requests: dict[tuple[str, ...], int] = {}
        self._durations: dict[tuple[str, ...], _Durations] = {}
        self._streams: dict[_Labels, int] = {}

    @contextlib.contextmanager
    def long_running(self, info: RequestInfo) -> Iterator[None]:
        """Count a request that ends only with its client among the open ones."""
        labels = _labels(info, applies=False)
        self._streams[labels] = self._streams.get(labels, 0) + 1
        try:
            yield
        finally:
            self._streams[labels] -= 1

    def count(
        self, info: RequestInfo, code: int, seconds: float, *, known: bool, dry_run: str = "", applies: bool = False
    ) -> None:
        """Count a request. Requests with a path that the server does not have (not `known`) share one set of labels.

        `applies`: the request is a server-side apply.
        """
        labels = (*_labels(info, applies=applies), _DRY_RUN.get(dry_run, "invalid")) if known else _UNKNOWN
        key = (*labels, str(code))
        self._requests[key] = self._requests.get(key, 0) + 1
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
        for (*labels, code), count in self._requests.items():
            requests.add_metric([*labels, _COMPONENT, code], count)
        durations = HistogramMetricFamily(
            "apiserver_request_duration_seconds", "Time until the answer was complete.", labels=_LABELS
        )
        for key, one in self._durations.items():
            buckets = list(zip(_BOUNDS, accumulate(one.counts), strict=True))
            durations.add_metric([*key, _COMPONENT], buckets, one.seconds)
        streams = GaugeMetricFamily(
            "apiserver_longrunning_requests", "Open requests that end with their client.", labels=_LABELS_OF_STREAMS
        )
        for key, open_now in self._streams.items():
            streams.add_metric([*key, _COMPONENT], open_now)
        yield from (requests, durations, streams, _build_info())

    def render(self) -> Response:
        return Response(200, generate_latest(self.registry), CONTENT_TYPE_LATEST)


def _build_info() -> Metric:
    major, minor = KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
    labels = {"git_version": GIT_VERSION, "major": major, "minor": minor, "platform": f"linux/{architecture()}"}
    info = GaugeMetricFamily("kubernetes_build_info", "The version. The value is always 1.", labels=list(labels))
    info.add_metric(list(labels.values()), 1)
    return info

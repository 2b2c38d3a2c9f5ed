"""Requests as metrics.

Pure: no I/O, no clock, no randomness. Source: apiserver/pkg/endpoints/metrics/metrics.go.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.exposition.numbers import Histograms, Labels, counter_family

_SLI_SECONDS = (
    *(0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5),
    *(2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60),
)
_SECONDS = (0.005, 0.025, *_SLI_SECONDS)
_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "dry_run", "component")
_LABELS_OF_STREAMS = ("verb", "group", "version", "resource", "subresource", "scope", "component")
_COMPONENT = "apiserver"

# Metrics name the HTTP method, except for the verbs that share one with another.
_VERBS = {"create": "POST", "update": "PUT", "deletecollection": "DELETE"}
_CONNECT_SUBRESOURCES = frozenset({"attach", "exec", "portforward", "proxy"})
_HEALTH_PATHS = frozenset({"/healthz", "/livez", "/readyz"})

_UNKNOWN: Labels = ("OTHER", "", "", "", "", "", "")
_DRY_RUN = {"": "", "All": "All"}


def _labels(info: RequestInfo, *, applies: bool) -> Labels:
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


class RequestMetrics(Collector):
    """Counts and durations of requests, and those that are open now."""

    def __init__(self) -> None:
        self._requests: dict[Labels, float] = {}
        self._seconds = Histograms(
            "apiserver_request_duration_seconds", "Time until the answer was complete.", _LABELS, _SECONDS
        )
        self._sli_seconds = Histograms(
            "apiserver_request_sli_duration_seconds",
            "Time until the answer was complete, without that for which webhooks and flow control are responsible.",
            _LABELS_OF_STREAMS,
            _SLI_SECONDS,
        )
        self._streams: dict[Labels, int] = {}
        self._terminations: dict[Labels, float] = {}
        # Requests that are no streams, by Kubernetes' `request_kind`.
        self._in_flight = {"mutating": 0, "readOnly": 0}

    @contextlib.contextmanager
    def in_flight(self, *, mutates: bool) -> Iterator[None]:
        """Count a request that is no stream among those that are carried out now."""
        kind = "mutating" if mutates else "readOnly"
        self._in_flight[kind] += 1
        try:
            yield
        finally:
            self._in_flight[kind] -= 1

    @contextlib.contextmanager
    def long_running(self, info: RequestInfo) -> Iterator[None]:
        """Count a request that ends only with its client among the open ones."""
        labels = _labels(info, applies=False)
        self._streams[labels] = self._streams.get(labels, 0) + 1
        try:
            yield
        finally:
            self._streams[labels] -= 1

    def record_termination(self, info: RequestInfo, code: int, *, known: bool) -> None:
        """Count a request that the server ended in self-defense: it was one too many, or took too long.

        `known` as in `count`: a request that is one too many is ended before its path is looked at.
        """
        labels = _labels(info, applies=False) if known else _UNKNOWN[:-1]
        key = (*labels, _COMPONENT, str(code))
        self._terminations[key] = self._terminations.get(key, 0) + 1

    def count(
        self,
        info: RequestInfo,
        code: int,
        seconds: float,
        *,
        waited: float = 0.0,
        known: bool,
        dry_run: str = "",
        applies: bool = False,
    ) -> None:
        """Count a request. Requests with a path that the server does not have (not `known`) share one set of labels.

        `waited`: seconds in which the request waited for others. `applies`: the request is a server-side apply.
        """
        labels = (*_labels(info, applies=applies), _DRY_RUN.get(dry_run, "invalid")) if known else _UNKNOWN
        key = (*labels, str(code))
        self._requests[key] = self._requests.get(key, 0) + 1
        self._seconds.of(labels).observe(seconds)
        self._sli_seconds.of(labels[:-1]).observe(max(seconds - waited, 0.0))

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "apiserver_request_total", "Requests by what they asked for.", labels=[*_LABELS, "code"]
        )
        for (*labels, code), count in self._requests.items():
            requests.add_metric([*labels, _COMPONENT, code], count)
        streams = GaugeMetricFamily(
            "apiserver_longrunning_requests", "Open requests that end with their client.", labels=_LABELS_OF_STREAMS
        )
        for key, open_now in self._streams.items():
            streams.add_metric([*key, _COMPONENT], open_now)
        in_flight = GaugeMetricFamily(
            "apiserver_current_inflight_requests", "Requests that are carried out now.", labels=["request_kind"]
        )
        for kind, number in self._in_flight.items():
            in_flight.add_metric([kind], number)
        terminations = counter_family(
            "apiserver_request_terminations_total",
            "Requests that the server ended in self-defense.",
            [*_LABELS_OF_STREAMS, "code"],
            self._terminations,
        )
        component = (_COMPONENT,)
        yield from (requests, self._seconds.family(component), self._sli_seconds.family(component))
        yield from (streams, in_flight, terminations)

"""Metrics of this process as a client: requests to API servers, and work queues.

One collector for each process, as in client-go: `CLIENT_METRICS`, which every part's page of metrics includes. Source:
component-base/metrics/prometheus/restclient, .../workqueue.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from bridgehead.exposition.numbers import Histograms, Labels, counter_family, gauge_family

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_REQUEST_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_QUEUE_SECONDS = tuple(10.0**power for power in range(-8, 2))
# Code of a request without an answer, as in client-go.
NO_ANSWER: Final = "<error>"


class ClientMetrics:
    """A collector of counts and durations, in plain numbers. Keys that wait in a queue of a name are summed up."""

    def __init__(self) -> None:
        self._requests: dict[Labels, float] = {}
        self._request_seconds = Histograms(
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb, and host.",
            ["verb", "host"],
            _REQUEST_SECONDS,
        )
        self._adds: dict[Labels, float] = {}
        self._depths: dict[Labels, float] = {}
        self._retries: dict[Labels, float] = {}
        self._waiting_seconds = Histograms(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested.",
            ["name"],
            _QUEUE_SECONDS,
        )
        self._work_seconds = Histograms(
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes.",
            ["name"],
            _QUEUE_SECONDS,
        )

    def record_request(self, method: str, host: str, code: str, seconds: float) -> None:
        """Record a request and its answer; for a stream, the beginning of its answer."""
        labels = (code, host, method)
        self._requests[labels] = self._requests.get(labels, 0) + 1
        self._request_seconds.of((method, host)).observe(seconds)

    def record_queue(self, name: str) -> None:
        """Show a queue before its first key."""
        labels = (name,)
        for numbers in (self._adds, self._depths, self._retries):
            numbers.setdefault(labels, 0)

    def record_add(self, name: str) -> None:
        """Record that a key began to wait in a queue."""
        self._adds[name,] = self._adds.get((name,), 0) + 1
        self._depths[name,] = self._depths.get((name,), 0) + 1

    def record_start(self, name: str, waited: float) -> None:
        """Record that a worker took a key that had waited for some seconds."""
        self._depths[name,] = self._depths.get((name,), 0) - 1
        self._waiting_seconds.of((name,)).observe(waited)

    def record_end(self, name: str, seconds: float, *, is_retry: bool) -> None:
        """Record a reconcile of some seconds. `is_retry`: it failed, and comes again."""
        self._work_seconds.of((name,)).observe(seconds)
        if is_retry:
            self._retries[name,] = self._retries.get((name,), 0) + 1

    def collect(self) -> Iterator[Metric]:
        yield counter_family(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            ["code", "host", "method"],
            self._requests,
        )
        yield self._request_seconds.family()
        name = ["name"]
        yield counter_family("workqueue_adds_total", "Total number of adds handled by workqueue", name, self._adds)
        yield gauge_family("workqueue_depth", "Current depth of workqueue", name, self._depths)
        yield counter_family(
            "workqueue_retries_total", "Total number of retries handled by workqueue", name, self._retries
        )
        yield self._waiting_seconds.family()
        yield self._work_seconds.family()


CLIENT_METRICS: Final = ClientMetrics()

"""Metrics of requests, in the text that Prometheus reads."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from bridgehead.apiserver.handlers.metrics import Metrics
from bridgehead.apiserver.http.paths import parse_request

LIST = parse_request("GET", "/api/v1/pods", {})


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Return the values by name and by the labels that are not empty."""
    families = text_string_to_metric_families(metrics.render().body.decode())
    return {
        (one.name, *sorted(value for value in one.labels.values() if value)): one.value
        for family in families
        for one in family.samples
    }


def test_requests_are_counted_by_what_they_ask_for():
    metrics = Metrics()
    for code in (200, 200, 403):
        metrics.count(LIST, code, 0.01, known=True)
    metrics.count(parse_request("GET", "/invented", {}), 404, 0.01, known=False)
    found = samples(metrics)
    assert found["apiserver_request_total", "200", "LIST", "pods", "v1"] == 2
    assert found["apiserver_request_total", "403", "LIST", "pods", "v1"] == 1
    assert found["apiserver_request_total", "404", "OTHER"] == 1


def test_durations_are_in_buckets():
    metrics = Metrics()
    for seconds in (0.001, 0.005, 0.006, 100.0):
        metrics.count(LIST, 200, seconds, known=True)
    metrics.count(LIST, 200, None, known=True)  # a watch
    found, what = samples(metrics), ("LIST", "pods", "v1")
    name = "apiserver_request_duration_seconds"
    assert [found[f"{name}_bucket", *sorted((*what, bound))] for bound in ("0.005", "0.025", "60.0", "+Inf")] == [
        2,
        3,
        3,
        4,
    ]
    assert found[f"{name}_count", *what] == 4
    assert round(found[f"{name}_sum", *what], 3) == 100.012


def test_open_watches_are_counted():
    metrics = Metrics()
    metrics.watches(1)
    metrics.watches(1)
    metrics.watches(-1)
    assert samples(metrics)["apiserver_longrunning_requests",] == 1

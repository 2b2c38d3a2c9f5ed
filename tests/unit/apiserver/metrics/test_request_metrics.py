"""Metrics of requests, in the text that Prometheus reads."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bridgehead.apiserver.http.request_info import parse_request
from bridgehead.apiserver.metrics.request_metrics import RequestMetrics
from bridgehead.exposition.formats import render

LIST = parse_request("GET", "/api/v1/pods", {})


def samples(metrics: RequestMetrics) -> dict[tuple[str, ...], float]:
    """Return the values by name and by the labels that are not empty."""
    families = text_string_to_metric_families(render(metrics)[0].decode())
    return {
        (one.name, *sorted(value for value in one.labels.values() if value)): one.value
        for family in families
        for one in family.samples
    }


def test_requests_are_counted_by_what_they_ask_for():
    metrics = RequestMetrics()
    for code in (200, 200, 403):
        metrics.count(LIST, code, 0.01, known=True)
    metrics.count(parse_request("GET", "/invented", {}), 404, 0.01, known=False)
    found = samples(metrics)
    assert found["apiserver_request_total", "200", "LIST", "apiserver", "cluster", "pods", "v1"] == 2
    assert found["apiserver_request_total", "403", "LIST", "apiserver", "cluster", "pods", "v1"] == 1
    assert found["apiserver_request_total", "404", "OTHER", "apiserver"] == 1


PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize(
    ("method", "path", "query", "options", "expected"),
    [
        ("GET", f"{PODS}/a", {}, {}, {"verb": "GET", "scope": "resource"}),
        ("GET", PODS, {}, {}, {"verb": "LIST", "scope": "namespace"}),
        ("GET", PODS, {"watch": "1"}, {}, {"verb": "WATCH", "scope": "namespace"}),
        ("POST", PODS, {}, {}, {"verb": "POST", "scope": "resource"}),
        ("POST", PODS, {}, {"dry_run": "All"}, {"verb": "POST", "scope": "resource", "dry_run": "All"}),
        ("POST", PODS, {}, {"dry_run": "Some"}, {"verb": "POST", "scope": "resource", "dry_run": "invalid"}),
        ("PUT", f"{PODS}/a/status", {}, {}, {"verb": "PUT", "scope": "resource", "subresource": "status"}),
        ("PATCH", f"{PODS}/a", {}, {}, {"verb": "PATCH", "scope": "resource"}),
        ("PATCH", f"{PODS}/a", {}, {"applies": True}, {"verb": "APPLY", "scope": "resource"}),
        ("DELETE", PODS, {}, {}, {"verb": "DELETE", "scope": "namespace"}),
        ("GET", f"{PODS}/a/exec", {}, {}, {"verb": "CONNECT", "scope": "resource", "subresource": "exec"}),
        ("GET", "/readyz", {}, {}, {"verb": "GET", "subresource": "/readyz"}),
        ("HEAD", "/version", {}, {}, {"verb": "GET"}),
    ],
)
def test_labels_are_those_of_kubernetes(method, path, query, options, expected):
    metrics = RequestMetrics()
    metrics.count(parse_request(method, path, query), 200, 0.01, known=True, **options)
    (total,) = labels_of(metrics, "apiserver_request_total")
    pod = {"resource": "pods", "version": "v1"} if path.startswith("/api/") else {}
    assert {name: value for name, value in total.items() if value} == {
        "code": "200",
        "component": "apiserver",
        **pod,
        **expected,
    }


def labels_of(metrics: RequestMetrics, name: str) -> list[dict[str, str]]:
    families = text_string_to_metric_families(render(metrics)[0].decode())
    return [one.labels for family in families for one in family.samples if one.name == name]


def test_durations_are_in_buckets():
    metrics = RequestMetrics()
    for seconds in (0.001, 0.005, 0.006, 100.0):
        metrics.count(LIST, 200, seconds, known=True)
    found, what = samples(metrics), ("LIST", "apiserver", "cluster", "pods", "v1")
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
    metrics, watch = RequestMetrics(), parse_request("GET", "/api/v1/pods", {"watch": "1"})
    key = ("apiserver_longrunning_requests", "WATCH", "apiserver", "cluster", "pods", "v1")
    with metrics.long_running(watch):
        with metrics.long_running(watch):
            assert samples(metrics)[key] == 2
        assert samples(metrics)[key] == 1
    assert samples(metrics)[key] == 0


def test_service_levels_are_about_the_time_that_the_server_needs():
    metrics = RequestMetrics()
    metrics.count(LIST, 200, 1.0, waited=0.7, known=True)
    found, what = samples(metrics), ("LIST", "apiserver", "cluster", "pods", "v1")
    name = "apiserver_request_sli_duration_seconds"
    assert found[f"{name}_sum", *what] == pytest.approx(0.3)
    assert [found[f"{name}_bucket", *sorted((*what, bound))] for bound in ("0.2", "0.4")] == [0, 1]


def test_requests_that_are_carried_out_now_are_counted():
    metrics = RequestMetrics()
    name = "apiserver_current_inflight_requests"
    with metrics.in_flight(mutates=True), metrics.in_flight(mutates=False), metrics.in_flight(mutates=False):
        assert (samples(metrics)[name, "mutating"], samples(metrics)[name, "readOnly"]) == (1, 2)
    assert (samples(metrics)[name, "mutating"], samples(metrics)[name, "readOnly"]) == (0, 0)


def test_requests_that_the_server_ends_are_counted():
    metrics = RequestMetrics()
    metrics.record_termination(LIST, 504, known=True)
    metrics.record_termination(parse_request("GET", "/apis/invented/v1/things", {}), 429, known=False)
    name, found = "apiserver_request_terminations_total", samples(metrics)
    assert found[name, "504", "LIST", "apiserver", "cluster", "pods", "v1"] == 1
    assert found[name, "429", "OTHER", "apiserver"] == 1

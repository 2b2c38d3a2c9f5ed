"""Metrics pages, rates and percentiles."""

from __future__ import annotations

import math

import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.exposition.common_metrics import new_registry
from bridgehead.insight.live import rates
from bridgehead.insight.live.rates import API_RULES, DNS_RULES, PROXY_RULES, Readings, api_rows, dns_row, sync_row
from bridgehead.insight.live.samples import PageReader, Rule, bucket_increase, increase, percentile

COUNTS = (Rule("requests_total", lambda labels: labels.get("verb")), Rule("seconds", lambda labels: "", True))
PAGE = b"""# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{verb="GET",code="200"} 5.0
requests_total{verb="GET",code="404"} 2
requests_total{verb="a\\"b\\\\c}\\n",code="200"} 1e1 1700000000000
requests_total_other{verb="GET"} 100
requests_total{code="200"} 7
requests_total{verb="NAN"} NaN
requests_total{verb="BAD"} x
requests_total
seconds_bucket{le="0.1"} 4
seconds_bucket{le="+Inf"} 6
seconds_bucket{le="x"} 6
seconds_count 6
seconds_sum 3
"""


def test_a_page_is_summed_by_group():
    found = PageReader(COUNTS).read(PAGE, 1.0)
    assert found.values == {("requests_total", "GET"): 7.0, ("requests_total", 'a"b\\c}?'): 10.0}
    assert found.buckets == {("seconds", ""): {0.1: 4.0, math.inf: 6.0}}
    assert found.groups("requests_total") == ["GET", 'a"b\\c}?']


def test_a_second_page_is_read_like_the_first():
    reader = PageReader(COUNTS)
    assert reader.read(PAGE, 1.0)[1:] == reader.read(PAGE, 2.0)[1:]


@given(st.binary(max_size=300))
def test_any_page_is_read(noise: bytes):
    PageReader(COUNTS).read(b"requests_total" + noise + b"\nrequests_total{" + noise, 1.0)


def test_pages_of_the_python_library_are_read():
    registry = new_registry()
    histogram = prometheus_client.Histogram("seconds", "h", buckets=(1, 2), registry=registry)
    for value in (0.5, 1.5, 5):
        histogram.observe(value)
    found = PageReader(COUNTS).read(prometheus_client.generate_latest(registry), 1.0)
    assert found.buckets["seconds", ""] == {1.0: 1.0, 2.0: 2.0, math.inf: 3.0}


def test_counters_that_begin_again():
    reader = PageReader(COUNTS)
    before, after = (
        reader.read(PAGE, 1.0),
        reader.read(b'requests_total{verb="GET"} 3\nseconds_bucket{le="+Inf"} 1', 2.0),
    )
    assert increase(before, after, "requests_total", "GET") == 3.0
    assert increase(before, before, "requests_total", "GET") == 0.0
    assert increase(before, after, "requests_total", "POST") is None
    assert bucket_increase(before, after, "seconds") == {math.inf: 1.0}
    assert bucket_increase(before, after, "hours") is None


@pytest.mark.parametrize(
    ("buckets", "share", "value"),
    [
        ({}, 0.5, None),
        ({1.0: 0.0, math.inf: 0.0}, 0.5, None),
        ({1.0: 10.0, 2.0: 10.0, math.inf: 10.0}, 0.5, 0.5),
        ({1.0: 0.0, 2.0: 10.0, math.inf: 10.0}, 0.5, 1.5),
        ({1.0: 5.0, 2.0: 10.0, math.inf: 10.0}, 0.99, 1.98),
        ({1.0: 0.0, 2.0: 0.0, math.inf: 10.0}, 0.5, 2.0),
        ({math.inf: 10.0}, 0.5, 0.0),
    ],
)
def test_percentile(buckets: dict[float, float], share: float, value: float | None):
    assert percentile(buckets, share) == (None if value is None else pytest.approx(value))


@given(st.dictionaries(st.floats(0.001, 100), st.integers(0, 1000), max_size=8), st.floats(0, 1))
def test_a_percentile_lies_between_the_bounds(counts: dict[float, int], share: float):
    total, buckets = 0, {}
    for bound in sorted(counts):
        total += counts[bound]
        buckets[bound] = float(total)
    found = percentile(buckets | {math.inf: float(total)}, share)
    assert (found is None) == (total == 0)
    assert found is None or 0 <= found <= max(counts)


def readings(rules: tuple[Rule, ...], *pages: tuple[float, bytes]) -> Readings:
    reader, found = PageReader(rules), Readings()
    for at, page in pages:
        found.add(reader.read(page, at))
    return found


def proxy_page(count: int, slow: int = 0) -> bytes:
    name = "kubeproxy_sync_proxy_rules_duration_seconds"
    lines = [
        f'{name}_bucket{{ip_family="{family}",le="{bound}"}} {value}'
        for family, factor in (("IPv4", 1), ("IPv6", 0))
        for bound, value in (("0.1", (count - slow) * factor), ("1", count * factor), ("+Inf", count * factor))
    ]
    lines.append('kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} 1234.5')
    return "\n".join(lines).encode()


def test_sync_row():
    found = sync_row("node1", readings(PROXY_RULES, (0.0, proxy_page(10)), (10.0, proxy_page(30, slow=10))))
    assert (found.key, found.rate, found.last, found.problem) == ("node1", 2.0, 1234.5, "")
    assert found.p50 == pytest.approx(0.1)
    assert found.p99 == pytest.approx(0.982)
    assert found.programmed_p99 is None


def test_one_reading_has_no_rates():
    found = sync_row("node1", readings(PROXY_RULES, (0.0, proxy_page(10))))
    assert (found.rate, found.p50) == (None, None)


def test_dns_row():
    def page(count: int) -> bytes:
        return (
            f'coredns_dns_requests_total{{type="A"}} {count}\n'
            f'coredns_dns_responses_total{{rcode="NXDOMAIN"}} {count / 2}\n'
            f'coredns_dns_responses_total{{rcode="SERVFAIL"}} {count / 10}\n'
            f'coredns_dns_responses_total{{rcode="NOERROR"}} {count}\n'
        ).encode()

    found = dns_row("kube-system/a", "node1", readings(DNS_RULES, (0.0, page(0)), (4.0, page(40))))
    assert (found.rate, found.unknown_names, found.failures, found.p50) == (10.0, 5.0, 1.0, None)


def test_api_rows():
    def page(count: int) -> bytes:
        return (
            f'apiserver_request_total{{verb="GET",code="200"}} {count}\n'
            f'apiserver_request_total{{verb="GET",code="500"}} {count / 10}\n'
            f'apiserver_request_total{{verb="WATCH",code="200"}} 3\n'
            f'apiserver_request_duration_seconds_bucket{{verb="GET",le="1"}} {count}\n'
            f'apiserver_request_duration_seconds_bucket{{verb="GET",le="+Inf"}} {count}\n'
            f'apiserver_request_duration_seconds_bucket{{verb="WATCH",le="+Inf"}} {count * 100}\n'
            "apiserver_current_inflight_requests 2\n"
        ).encode()

    every, get, watch = api_rows(readings(API_RULES, (0.0, page(0)), (10.0, page(100))))
    assert (every.key, every.rate, every.errors, every.p50, every.in_flight) == ("all", 11.0, 1.0, 0.5, 2.0)
    assert (get.key, get.rate, get.errors) == ("GET", 11.0, 1.0)
    assert (watch.key, watch.rate, watch.p50) == ("WATCH", 0.0, None)


def test_verbs_are_bounded():
    page = b"\n".join(b'apiserver_request_total{verb="%d"} 1' % number for number in range(1000))
    assert len(api_rows(readings(API_RULES, (0.0, page), (1.0, page)))) <= 21


def test_old_readings_are_dropped():
    found = readings(PROXY_RULES, *((float(second), proxy_page(second)) for second in range(0, 600, 2)))
    assert found.since(rates.RATE_SECONDS).at == 588.0
    assert found.since(1000.0).at == 538.0
    assert found.count_rate("kubeproxy_sync_proxy_rules_duration_seconds", "IPv4") == 1.0

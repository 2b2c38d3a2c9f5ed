"""Rates per second and percentiles, from readings of a metrics page at different times.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from .rows import Row
from .samples import Labels, Reading, Rule, bucket_increase, increase, percentile


class SyncRow(Row, frozen=True, kw_only=True):
    """Syncs of a node's service proxy; `key` is the node. Rates are per second, times in seconds.

    A number is None if there is no sample of it: it is not exported, or nothing happened in the window. `p50`, `p99`:
    duration of a sync. `programmed_p50`, `programmed_p99`: from the change of an endpoint to its rule in the kernel.
    `last`: epoch seconds of the last sync. `problem`: why there are no numbers; "" if there are.
    """

    rate: float | None = None
    p50: float | None = None
    p99: float | None = None
    programmed_p50: float | None = None
    programmed_p99: float | None = None
    last: float | None = None
    problem: str = ""


class DnsRow(Row, frozen=True, kw_only=True):
    """Questions to a DNS server; `key` is NAMESPACE/NAME of its pod. Units and None as in SyncRow.

    `failures`: SERVFAIL and REFUSED per second; `unknown_names`: NXDOMAIN per second.
    """

    node: str = ""
    rate: float | None = None
    unknown_names: float | None = None
    failures: float | None = None
    p50: float | None = None
    p99: float | None = None
    problem: str = ""


class ApiRow(Row, frozen=True, kw_only=True):
    """Requests to the API server, for each verb; `key` is the verb (GET, LIST, ...) or `all`.

    Units and None as in SyncRow. `errors`: answers with code 5xx per second. Latencies are without watches.
    """

    rate: float | None = None
    errors: float | None = None
    p50: float | None = None
    p99: float | None = None
    in_flight: float | None = None
    problem: str = ""


# Rates are of the last seconds; percentiles of a longer time, because many processes do little.
RATE_SECONDS = 10.0
PERCENTILE_SECONDS = 60.0

_SYNCS = "kubeproxy_sync_proxy_rules_duration_seconds"
_PROGRAMMING = "kubeproxy_network_programming_duration_seconds"
_LAST_SYNC = "kubeproxy_sync_proxy_rules_last_timestamp_seconds"
_QUESTIONS = "coredns_dns_requests_total"
_ANSWERS = "coredns_dns_responses_total"
_ANSWER_SECONDS = "coredns_dns_request_duration_seconds"
_REQUESTS = "apiserver_request_total"
_REQUEST_SECONDS = "apiserver_request_duration_seconds"
_IN_FLIGHT = "apiserver_current_inflight_requests"

ALL_VERBS = "all"
_ERRORS = "5xx "
_MOST_VERBS = 20
_LONG_VERBS = ("WATCH", "WATCHLIST", "CONNECT")


def _family(labels: Labels) -> str:
    return labels.get("ip_family", "")


def _everything(labels: Labels) -> str:
    return ""


def _kind_of_answer(labels: Labels) -> str | None:
    code = labels.get("rcode", "")
    return "failure" if code in ("SERVFAIL", "REFUSED") else "unknown name" if code == "NXDOMAIN" else None


def _verb(labels: Labels) -> str:
    prefix = _ERRORS if labels.get("code", "").startswith("5") else ""
    return prefix + labels.get("verb", "")


def _short_verb(labels: Labels) -> str | None:
    verb = labels.get("verb", "")
    return None if verb in _LONG_VERBS else verb


PROXY_RULES = (
    Rule(_SYNCS, _family, is_histogram=True),
    Rule(_PROGRAMMING, _everything, is_histogram=True),
    Rule(_LAST_SYNC, _family),
)
DNS_RULES = (
    Rule(_QUESTIONS, _everything),
    Rule(_ANSWERS, _kind_of_answer),
    Rule(_ANSWER_SECONDS, _everything, is_histogram=True),
)
API_RULES = (
    Rule(_REQUESTS, _verb),
    Rule(_REQUEST_SECONDS, _short_verb, is_histogram=True),
    Rule(_IN_FLIGHT, _everything),
)


class Readings:
    """The readings of one server's page during the last minute. At least one has been added when rows are made."""

    def __init__(self) -> None:
        self._readings: deque[Reading] = deque()

    def add(self, reading: Reading) -> None:
        self._readings.append(reading)
        while len(self._readings) > 2 and self._readings[1].at <= reading.at - PERCENTILE_SECONDS:
            self._readings.popleft()

    @property
    def last(self) -> Reading:
        return self._readings[-1]

    def since(self, seconds: float) -> Reading:
        """Return the latest reading that is at least so old, or else the oldest one."""
        limit = self.last.at - seconds
        return next((each for each in reversed(self._readings) if each.at <= limit), self._readings[0])

    def rate(self, name: str, group: str = "") -> float | None:
        """Return the increase of a counter per second; None with fewer than two readings, or without the counter."""
        before = self.since(RATE_SECONDS)
        return _per_second(before, self.last, increase(before, self.last, name, group))

    def count_rate(self, name: str, group: str = "") -> float | None:
        """Return the observations of a histogram per second."""
        before = self.since(RATE_SECONDS)
        buckets = bucket_increase(before, self.last, name, group)
        return _per_second(before, self.last, None if buckets is None else max(buckets.values(), default=0.0))

    def percentiles(self, name: str, group: str = "") -> tuple[float | None, float | None]:
        """Return the median and the 99th percentile of a histogram in the last minute."""
        before = self.since(PERCENTILE_SECONDS)
        buckets = bucket_increase(before, self.last, name, group) if before is not self.last else None
        return (None, None) if buckets is None else _median_and_99th(buckets)


def _per_second(before: Reading, after: Reading, growth: float | None) -> float | None:
    seconds = after.at - before.at
    return _rounded(growth / seconds) if growth is not None and seconds > 0 else None


def _median_and_99th(buckets: Mapping[float, float]) -> tuple[float | None, float | None]:
    return _rounded(percentile(buckets, 0.5)), _rounded(percentile(buckets, 0.99))


def _rounded(number: float | None) -> float | None:
    """Return a number with four digits: more of them would be changes of a row that nobody sees."""
    return None if number is None else float(f"{number:.4g}")


def sync_row(node: str, readings: Readings) -> SyncRow:
    """Return a node's row. A sync of both IP families counts once: the family with more syncs is taken."""
    last = readings.last
    families = last.groups(_SYNCS)
    family = max(families, key=lambda each: max(last.buckets[_SYNCS, each].values(), default=0.0), default="")
    p50, p99 = readings.percentiles(_SYNCS, family)
    programmed_p50, programmed_p99 = readings.percentiles(_PROGRAMMING)
    times = [last.values[_LAST_SYNC, each] for each in last.groups(_LAST_SYNC)]
    return SyncRow(
        key=node,
        rate=readings.count_rate(_SYNCS, family),
        p50=p50,
        p99=p99,
        programmed_p50=programmed_p50,
        programmed_p99=programmed_p99,
        last=max(times, default=0.0) or None,
    )


def dns_row(key: str, node: str, readings: Readings) -> DnsRow:
    """Return a DNS server's row. `key`: NAMESPACE/NAME of its pod."""
    p50, p99 = readings.percentiles(_ANSWER_SECONDS)
    return DnsRow(
        key=key,
        node=node,
        rate=readings.rate(_QUESTIONS) if readings.last.groups(_QUESTIONS) else readings.count_rate(_ANSWER_SECONDS),
        unknown_names=readings.rate(_ANSWERS, "unknown name"),
        failures=readings.rate(_ANSWERS, "failure"),
        p50=p50,
        p99=p99,
    )


def api_rows(readings: Readings) -> list[ApiRow]:
    """Return the row of all verbs together, then those of the verbs with the most requests."""
    last = readings.last
    rates: dict[str, float] = {}
    errors: dict[str, float] = {}
    for group in last.groups(_REQUESTS):
        rate = readings.rate(_REQUESTS, group)
        if rate is not None:
            verb = group.removeprefix(_ERRORS)
            rates[verb] = rates.get(verb, 0.0) + rate
            if group != verb:
                errors[verb] = errors.get(verb, 0.0) + rate
    verbs = sorted(rates, key=lambda verb: (-rates[verb], verb))[:_MOST_VERBS]
    rows = []
    for verb in sorted(verbs):
        p50, p99 = readings.percentiles(_REQUEST_SECONDS, verb)
        rows.append(ApiRow(key=verb or "-", rate=rates[verb], errors=errors.get(verb, 0.0), p50=p50, p99=p99))
    p50, p99 = _all_percentiles(readings)
    everything = ApiRow(
        key=ALL_VERBS,
        rate=_rounded(sum(rates.values())) if rates else None,
        errors=_rounded(sum(errors.values())) if rates else None,
        p50=p50,
        p99=p99,
        in_flight=last.values.get((_IN_FLIGHT, "")),
    )
    return [everything, *rows]


def _all_percentiles(readings: Readings) -> tuple[float | None, float | None]:
    before, last = readings.since(PERCENTILE_SECONDS), readings.last
    total: dict[float, float] = {}
    if before is not last:
        for group in last.groups(_REQUEST_SECONDS):
            for bound, count in (bucket_increase(before, last, _REQUEST_SECONDS, group) or {}).items():
                total[bound] = total.get(bound, 0.0) + count
    return _median_and_99th(total)

"""Metrics of admission webhooks, with Kubernetes' names. Source: apiserver/pkg/admission/metrics/metrics.go."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from bridgehead.apiserver.admission.attributes import Attributes

ADMIT, VALIDATING = "admit", "validating"
# Why a call led to a refusal.
CALL_FAILED, SERVER_FAILED, DENIED = "calling_webhook_error", "apiserver_internal_error", "no_error"

_PREFIX = "apiserver_admission_webhook"
_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10, 25)
_MAX_CODE = 600


class WebhookMetrics:
    """Durations and refusals. `kind` is `ADMIT` for mutating webhooks, `VALIDATING` for the others."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("name", "type", "operation")
        self._seconds = Histogram(
            f"{_PREFIX}_admission_duration_seconds",
            "Time until a webhook's answer.",
            (*labels, "rejected"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._requests = Counter(
            f"{_PREFIX}_request_total", "Calls of webhooks.", (*labels, "code", "rejected"), registry=registry
        )
        # The library would add `_total` to the names of counters.
        self._rejections = Gauge(
            f"{_PREFIX}_rejection_count",
            "Requests that were refused because of a webhook.",
            (*labels, "error_type", "rejection_code"),
            registry=registry,
        )
        self._failed_open = Gauge(
            f"{_PREFIX}_fail_open_count",
            "Calls that failed and were ignored, by failure policy.",
            ("name", "type"),
            registry=registry,
        )

    def observe(self, webhook: str, kind: str, attributes: Attributes, seconds: float, code: int, why: str) -> None:
        """Count a call. `why` is the reason for which it led to a refusal, "" if it did not."""
        labels = (webhook, kind, attributes.operation)
        rejected = "true" if why else "false"
        code = min(code, _MAX_CODE)
        self._seconds.labels(*labels, rejected).observe(seconds)
        self._requests.labels(*labels, str(code), rejected).inc()
        if why:
            self._rejections.labels(*labels, why, str(code)).inc()

    def count_failed_open(self, webhook: str, kind: str) -> None:
        self._failed_open.labels(webhook, kind).inc()

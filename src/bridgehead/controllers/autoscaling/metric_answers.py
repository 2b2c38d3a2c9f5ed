"""Values in answers of metrics.k8s.io, custom.metrics.k8s.io and external.metrics.k8s.io. Called by `metrics_client`.

Values are in thousandths. Functions raise MetricsError with Kubernetes' messages for answers without the metric.
Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/controller/podautoscaler/metrics/client.go`.
"""

from __future__ import annotations

from typing import Any

from bridgehead.objects.quantities import milli_value
from bridgehead.objects.times import parse_duration, parse_time

from .replica_counts import MetricsError, PodMetric

Json = dict[str, Any]
_DEFAULT_WINDOW = 60.0


def resource_metrics(answer: Json, resource: str, container: str) -> dict[str, PodMetric]:
    """Return the use of a resource by each pod: of all containers, or (`container`) of one."""
    items = answer.get("items") or ()
    if not items:
        raise MetricsError("no metrics returned from resource metrics API")
    found = {}
    for item in items:
        name, usages = item["metadata"]["name"], list(item.get("containers") or ())
        if container:
            usages = [one for one in usages if one.get("name") == container]
            if not usages:
                namespace = item["metadata"].get("namespace", "")
                raise MetricsError(
                    "failed to get container metrics: "
                    f"container {container} not present in metrics for pod {namespace}/{name}"
                )
        values = [one["usage"][resource] for one in usages if resource in (one.get("usage") or {})]
        if values and len(values) == len(usages):
            window = parse_duration(item["window"]) if item.get("window") else _DEFAULT_WINDOW
            found[name] = PodMetric(sum(map(milli_value, values)), _time(item), window)
    return found


def pod_metrics(answer: Json) -> dict[str, PodMetric]:
    """Return a custom metric of each pod."""
    items = answer.get("items") or ()
    if not items:
        raise MetricsError("no metrics returned from custom metrics API")
    return {
        item["describedObject"]["name"]: PodMetric(
            milli_value(item["value"]), _time(item), float(item.get("windowSeconds") or _DEFAULT_WINDOW)
        )
        for item in items
    }


def object_metric(answer: Json) -> int:
    """Return a custom metric of one object."""
    items = list(answer.get("items") or ())
    if len(items) != 1:
        raise MetricsError(f"the custom metrics API server returned {len(items)} results when we asked for exactly one")
    return milli_value(items[0]["value"])


def external_metric(answer: Json) -> int:
    """Return the sum of an external metric's values."""
    items = answer.get("items") or ()
    if not items:
        raise MetricsError("no metrics returned from external metrics API")
    return sum(milli_value(item["value"]) for item in items)


def _time(item: Json) -> float:
    return parse_time(item["timestamp"]) if item.get("timestamp") else 0.0

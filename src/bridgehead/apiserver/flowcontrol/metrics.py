"""Metrics of priority levels, under Kubernetes' names (source: apiserver/pkg/util/flowcontrol/metrics)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .levels import Level


class PriorityLevelMetrics(Collector):
    """The seats and queues of priority levels, read when metrics are asked for."""

    def __init__(self, levels: Callable[[], Sequence[Level]]) -> None:
        self._levels = levels

    def collect(self) -> Iterator[Metric]:
        prefix, label = "apiserver_flowcontrol", ["priority_level"]
        seats = GaugeMetricFamily(f"{prefix}_nominal_limit_seats", "Seats of a level.", labels=label)
        lower = GaugeMetricFamily(f"{prefix}_lower_limit_seats", "Seats that are not lent.", labels=label)
        upper = GaugeMetricFamily(f"{prefix}_upper_limit_seats", "Seats with borrowed ones.", labels=label)
        taken = GaugeMetricFamily(f"{prefix}_current_executing_seats", "Seats that are taken.", labels=label)
        waiting = GaugeMetricFamily(f"{prefix}_current_inqueue_requests", "Requests that wait.", labels=label)
        refused = CounterMetricFamily(
            f"{prefix}_rejected_requests", "Requests that were refused.", labels=[*label, "reason"]
        )
        for level in self._levels():
            name = [level.name]
            seats.add_metric(name, level.limits.seats or 0)
            lower.add_metric(name, level.limits.lower)
            upper.add_metric(name, level.limits.upper)
            taken.add_metric(name, level.taken)
            waiting.add_metric(name, level.waiting)
            for why, count in level.refused.items():
                refused.add_metric([*name, why], count)
        yield from (seats, lower, upper, taken, waiting, refused)

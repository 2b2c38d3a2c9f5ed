"""The store as metrics: objects, watch events, commits.

Source: apiserver/pkg/storage/etcd3/metrics/metrics.go, apiserver/pkg/endpoints/metrics/metrics.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bridgehead.apiserver.resource import Resource
from bridgehead.exposition.numbers import Histograms, Labels, counter_family
from bridgehead.storage import Store

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class StorageMetrics(Collector):
    """Objects that are stored now, events that watches got, and the durations of commits.

    `resources` returns those that are served, `events` the number of events by the id of their resource.
    """

    def __init__(
        self, store: Store, resources: Callable[[], Iterable[Resource]], events: Callable[[], Mapping[str, int]]
    ) -> None:
        self._store = store
        self._resources = resources
        self._events = events
        self._commits = Histograms(
            "bridgehead_store_commit_duration_seconds",
            "Time until a commit of writes was on the disk; what etcd_request_duration_seconds is with etcd.",
            [],
            _SECONDS,
        )
        self._commits.of(())
        store.on_commit = self._commits.of(()).observe

    def collect(self) -> Iterator[Metric]:
        stored = {one.stored.id: one for one in self._resources()}
        objects = GaugeMetricFamily("apiserver_storage_objects", "Stored objects by resource.", labels=["resource"])
        by_group = GaugeMetricFamily(
            "apiserver_resource_objects", "Stored objects by group and resource.", labels=["group", "resource"]
        )
        events: dict[Labels, float] = {}
        for resource_id, resource in stored.items():
            count = self._store.count(resource_id)
            objects.add_metric([resource_id], count)
            by_group.add_metric([resource.group, resource.plural], count)
            if number := self._events().get(resource_id, 0):
                labels = (resource.group, resource.version, resource.plural)
                events[labels] = events.get(labels, 0) + number
        yield from (objects, by_group)
        yield counter_family(
            "apiserver_watch_events_total", "Events that watches got.", ["group", "version", "resource"], events
        )
        yield self._commits.family()

"""Metrics that every part has: `kubernetes_build_info` (component-base/metrics/version.go) and `process_*`."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bridgehead import GIT_VERSION, KUBERNETES_VERSION, architecture


class HasFamilies(Protocol):
    """A collector, which need not be a class of the client library."""

    def collect(self) -> Iterable[Metric]: ...


class _BuildInfo(Collector):
    def collect(self) -> Iterator[Metric]:
        major, minor = KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
        labels = {
            "build_date": "",
            "compiler": platform.python_implementation(),
            "git_commit": "",
            "git_tree_state": "",
            "git_version": GIT_VERSION,
            "go_version": "",
            "major": major,
            "minor": minor,
            "platform": f"linux/{architecture()}",
        }
        info = GaugeMetricFamily("kubernetes_build_info", "The version. The value is always 1.", labels=list(labels))
        info.add_metric(list(labels.values()), 1)
        yield info


build_info = _BuildInfo()


def new_registry(*collectors: HasFamilies) -> CollectorRegistry:
    """Return a registry with these collectors, the version and the process."""
    registry = CollectorRegistry()
    for collector in (*collectors, build_info):
        registry.register(collector)
    ProcessCollector(registry=registry)
    return registry

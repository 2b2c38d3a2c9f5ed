"""The page /metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, ProcessCollector

from bridgehead.apiserver.http.request import Response
from bridgehead.exposition import build_info, render

from .access import AccessMetrics
from .requests import RequestMetrics
from .storage import StorageMetrics


class Metrics:
    """All metrics of a server."""

    def __init__(self, storage: StorageMetrics) -> None:
        self.registry = CollectorRegistry()
        self.requests, self.access, self.storage = RequestMetrics(), AccessMetrics(), storage
        for collector in (self.requests, self.access, self.storage, build_info):
            self.registry.register(collector)
        ProcessCollector(registry=self.registry)  # process_*: dashboards of API servers use them

    def render(self, accept: str) -> Response:
        page, content_type = render(self.registry, accept)
        return Response(200, page, content_type)

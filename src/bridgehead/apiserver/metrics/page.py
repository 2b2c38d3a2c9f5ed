"""The page /metrics."""

from __future__ import annotations

from bridgehead.apiserver.http.request import Response
from bridgehead.exposition import new_registry, render

from .access import AccessMetrics
from .requests import RequestMetrics
from .storage import StorageMetrics


class Metrics:
    """All metrics of a server."""

    def __init__(self, storage: StorageMetrics) -> None:
        self.requests, self.access, self.storage = RequestMetrics(), AccessMetrics(), storage
        self.registry = new_registry(self.requests, self.access, self.storage)

    def render(self, accept: str) -> Response:
        page, content_type = render(self.registry, accept)
        return Response(200, page, content_type)

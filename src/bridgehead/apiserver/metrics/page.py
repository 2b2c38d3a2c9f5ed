"""The page /metrics."""

from __future__ import annotations

from bridgehead.apiserver.http.request import Response
from bridgehead.apiserver.http.worker import LONG_BYTES, run_long
from bridgehead.exposition.common_metrics import new_registry
from bridgehead.exposition.formats import Families, render

from .access import AccessMetrics
from .request_metrics import RequestMetrics
from .storage_metrics import StorageMetrics


class Metrics:
    """All metrics of a server."""

    def __init__(self, storage: StorageMetrics) -> None:
        self.requests, self.access, self.storage = RequestMetrics(), AccessMetrics(), storage
        self.registry = new_registry(self.requests, self.access, self.storage)

    async def render(self, accept: str) -> Response:
        """Return the page. A busy server's page has megabytes, so the worker renders it."""
        families = Families(self.registry.collect())  # now, because requests change the numbers meanwhile
        page, content_type = await run_long(LONG_BYTES, lambda: render(families, accept))
        return Response(200, page, content_type)

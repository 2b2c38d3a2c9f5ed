"""The DNS server's pages: /health on 8080, /ready on 8181, /metrics on 9153, as CoreDNS has them. For `process.py`."""

from __future__ import annotations

from collections.abc import Callable

from bridgehead import pages
from bridgehead.objects.addresses import join_host_port
from bridgehead.pages import Page, Routes, metrics_page

from .errors import CannotServe


def health_routes() -> Routes:
    return {"/health": lambda: Page(200, b"OK")}


def ready_routes(obstacle: Callable[[], str]) -> Routes:
    """503 with what stands in the way, if anything does."""
    return {"/ready": lambda: Page(503, found.encode()) if (found := obstacle()) else Page(200, b"OK")}


def metrics_routes(exposition: Callable[[], bytes]) -> Routes:
    return {"/metrics": lambda: metrics_page(exposition())}


async def serve(address: tuple[str, int], routes: Routes, *, shared: bool = False) -> None:
    """Answer until cancelled; `shared`: the port is for several processes. Raises CannotServe."""
    try:
        await pages.serve(address, routes, shared=shared)
    except OSError as error:
        raise CannotServe(
            f"cannot serve {', '.join(routes)} on {join_host_port(*address)}: {error.strerror}"
        ) from error

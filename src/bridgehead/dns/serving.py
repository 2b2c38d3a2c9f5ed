"""The little HTTP servers: /health on 8080, /ready on 8181, /metrics on 9153, as CoreDNS has them.

GET only, one request a connection: what probes and scrapers send. `cli/dns.py` starts them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from .errors import CannotServe

_REQUEST_SECONDS = 10
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class Page(NamedTuple):
    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Routes = Mapping[str, Callable[[], Page]]


def health_routes() -> Routes:
    return {"/health": lambda: Page(200, b"OK")}


def ready_routes(is_ready: Callable[[], bool]) -> Routes:
    """503 until the zone is complete for the first time. An API server that goes away later changes nothing."""
    return {"/ready": lambda: Page(200, b"OK") if is_ready() else Page(503, b"kubernetes")}


def metrics_routes(exposition: Callable[[], bytes]) -> Routes:
    return {"/metrics": lambda: Page(200, exposition(), "text/plain; version=0.0.4; charset=utf-8")}


async def serve(address: tuple[str, int], routes: Routes, *, shared: bool = False) -> None:
    """Answer until cancelled; `shared`: the port is for several processes. Raises CannotServe."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_respond(head, routes))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass  # whoever asked does not want to know any more
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    try:
        server = await asyncio.start_server(handle, *address, reuse_port=shared or None)
    except OSError as error:
        raise CannotServe(f"cannot serve {', '.join(routes)} on {address[0]}:{address[1]}: {error.strerror}") from error
    async with server:
        await server.serve_forever()


def _respond(head: bytes, routes: Routes) -> bytes:
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    if method not in ("GET", "HEAD"):
        page = Page(405 if method.isalpha() else 400, b"")
    elif path in routes:
        page = routes[path]()
    else:
        page = Page(404, b"404 page not found\n")
    header = (
        f"HTTP/1.1 {page.status} {_REASONS[page.status]}\r\nContent-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\nConnection: close\r\n\r\n"
    )
    return header.encode() + (page.body if method != "HEAD" else b"")

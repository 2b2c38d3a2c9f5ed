"""The proxy's two little HTTP servers: health on 10256 and metrics on 10249, as kube-proxy has them.

GET only, one request a connection: what probes and scrapers send. Started by `agent.py`'s caller, `cli/proxy.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from bridgehead.objects.times import format_time

from .metrics import ProxyHealth, ProxyMetrics

log = logging.getLogger(__name__)

_REQUEST_SECONDS = 10
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class Answer(NamedTuple):
    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Routes = Mapping[str, Callable[[], Answer]]


def health_routes(health: ProxyHealth) -> Routes:
    """/healthz is for load balancers and start-up probes, /livez for whoever restarts the proxy.

    /healthz is 503 also while the node goes away and, unlike kube-proxy's, until the first rules are in the kernel.
    """

    def answer(is_good: bool) -> Answer:
        status = {
            "lastUpdated": format_time(health.last_updated) if health.last_updated else "",
            "currentTime": format_time(time.time()),
            "nodeEligible": health.is_node_eligible,
        }
        return Answer(200 if is_good else 503, json.dumps(status).encode(), "application/json")

    return {
        "/healthz": lambda: answer(health.is_alive and health.is_node_eligible and health.last_updated > 0),
        "/livez": lambda: answer(health.is_alive),
    }


def metrics_routes(metrics: ProxyMetrics, mode: str) -> Routes:
    return {
        "/metrics": lambda: Answer(200, metrics.exposition(), "text/plain; version=0.0.4; charset=utf-8"),
        "/proxyMode": lambda: Answer(200, mode.encode()),
        "/healthz": lambda: Answer(200, b"ok"),
    }


async def serve(address: tuple[str, int], routes: Routes) -> None:
    """Answer until cancelled. Raises OSError when the address cannot be had."""

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

    server = await asyncio.start_server(handle, *address)
    async with server:
        await server.serve_forever()


def _respond(head: bytes, routes: Routes) -> bytes:
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    if method not in ("GET", "HEAD"):
        answer = Answer(405 if method.isalpha() else 400, b"")
    elif path in routes:
        answer = routes[path]()
    else:
        answer = Answer(404, b"404 page not found\n")
    header = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\nContent-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\nConnection: close\r\n\r\n"
    )
    return header.encode() + (answer.body if method != "HEAD" else b"")

"""A load generator for the API server: many HTTPS connections, one request at a time on each.

It does little beside TLS, so that the server is what is measured, although both share the machine's processors.
"""

from __future__ import annotations

import asyncio
import ssl
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import cast

import uvloop


@dataclass
class Load:
    """Results: seconds of each request, and of all; answers other than 2xx by status."""

    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0
    refused: dict[int, int] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        """Return the latency in seconds that this share (0 to 1) of the requests did not exceed."""
        return statistics.quantiles(self.latencies, n=1000, method="inclusive")[round(share * 1000) - 1]

    def text(self) -> str:
        """Return the table's cell."""
        if self.refused:
            return f"answers by status: {self.refused}"
        median, high = 1000 * self.percentile(0.5), 1000 * self.percentile(0.99)
        return f"{self.rate:,.0f}/s, median {median:.0f} ms, 99 %: {high:.0f} ms"


def encode_request(method: str, path: str, body: bytes = b"", *, content_type: str = "application/json") -> bytes:
    """Return an HTTP/1.1 request."""
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {content_type}\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


_LAST_CHUNK = b"\r\n0\r\n\r\n"  # nowhere else in an answer of JSON


class _Connection(asyncio.Protocol):
    """Sends the next request when the last one is answered. Answers have a Content-Length, or are chunked."""

    def __init__(self, requests: Iterator[bytes], load: Load, is_done: asyncio.Future[None]) -> None:
        self._requests = requests
        self._load = load
        self._is_done = is_done
        self._received = b""
        self._sent_at = 0.0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send_next(self) -> None:
        """Send a request, or end the connection if there is none left."""
        request = next(self._requests, None)
        if request is None:
            self._is_done.set_result(None)
            self._transport.close()
            return
        self._sent_at = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, ending, body = self._received.partition(b"\r\n\r\n")
        if not ending:
            return
        lines = head.lower().split(b"\r\n")
        length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), None)
        if not body.endswith(_LAST_CHUNK) if length is None else len(body) < length:
            return
        self._load.latencies.append(time.perf_counter() - self._sent_at)
        status = int(head[9:12])
        if status // 100 != 2:
            self._load.refused[status] = self._load.refused.get(status, 0) + 1
        self._received = b""
        self.send_next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_done.done():
            self._is_done.set_exception(exc or ConnectionError("the server closed the connection"))


def run_load(ports: Sequence[int], context: ssl.SSLContext, requests: list[bytes], *, connections: int) -> Load:
    """Send all requests, over connections to the servers at `ports` in turn.

    The connections are open before the clock starts. Raises OSError when one fails.
    """
    return uvloop.run(_run_load(ports, context, requests, connections))


async def _run_load(ports: Sequence[int], context: ssl.SSLContext, requests: list[bytes], connections: int) -> Load:
    load, loop, queue = Load(), asyncio.get_running_loop(), iter(requests)
    ends, open_ones = [], []
    for port in islice(cycle(ports), connections):
        end: asyncio.Future[None] = loop.create_future()

        def protocol(end: asyncio.Future[None] = end) -> _Connection:
            return _Connection(queue, load, end)

        _, connection = await loop.create_connection(protocol, "127.0.0.1", port, ssl=context)
        ends.append(end)
        open_ones.append(connection)
    began = time.perf_counter()
    for connection in open_ones:
        connection.send_next()
    await asyncio.gather(*ends)
    load.seconds = time.perf_counter() - began
    return load


class _Watcher(asyncio.Protocol):
    """Sends one watch and counts what arrives. `on_marker` is called at the end of the event that has the marker."""

    def __init__(self, request: bytes, is_open: asyncio.Future[None]) -> None:
        self._request = request
        self._is_open = is_open
        self._tail = b""
        self.received = 0
        self.marker = b""
        self._has_marker = False
        self.on_marker: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        if not self._is_open.done():
            self._is_open.set_result(None)
        if self.on_marker is not None:
            self._tail = (self._tail + data)[-len(data) - len(self.marker) :]
            self._has_marker = self._has_marker or self.marker in self._tail
            if self._has_marker and self._tail.endswith(b"}\n\r\n"):  # of an event, and of its chunk
                on_marker, self.on_marker = self.on_marker, None
                on_marker()
            self._tail = self._tail[-len(self.marker) :]

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_open.done():
            self._is_open.set_exception(exc or ConnectionError("the server closed the watch"))


@dataclass(frozen=True)
class Delivery:
    """One change, delivered to all watchers: bytes of all together, seconds from the write's start to the last one."""

    received: int
    seconds: float


def run_watchers(
    ports: Sequence[int], context: ssl.SSLContext, path: str, *, watchers: int, write: bytes, marker: bytes
) -> Delivery:
    """Open watches of `path`, send the request `write`, and wait until all watchers have got `marker`."""
    return uvloop.run(_run_watchers(ports, context, path, watchers, write, marker))


async def _run_watchers(
    ports: Sequence[int], context: ssl.SSLContext, path: str, watchers: int, write: bytes, marker: bytes
) -> Delivery:
    loop, request = asyncio.get_running_loop(), encode_request("GET", path)
    everyone = []
    for port in islice(cycle(ports), watchers):
        is_open: asyncio.Future[None] = loop.create_future()

        def protocol(is_open: asyncio.Future[None] = is_open) -> _Watcher:
            return _Watcher(request, is_open)

        transport, watcher = await loop.create_connection(protocol, "127.0.0.1", port, ssl=context)
        await is_open
        everyone.append((transport, watcher))
    before = sum(watcher.received for _, watcher in everyone)
    has_all, missing = asyncio.Event(), watchers

    def count() -> None:
        nonlocal missing
        missing -= 1
        if not missing:
            has_all.set()

    for _, watcher in everyone:
        watcher.marker, watcher.on_marker = marker, count
    began = time.perf_counter()
    answer = await _run_load(ports[:1], context, [write], 1)
    if answer.refused:
        raise RuntimeError(f"the write was refused: {answer.refused}")
    async with asyncio.timeout(300):
        await has_all.wait()
    seconds = time.perf_counter() - began
    received = sum(watcher.received for _, watcher in everyone) - before
    for transport, _ in everyone:
        transport.close()
    return Delivery(received, seconds)

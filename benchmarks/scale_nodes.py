"""Simulated nodes in one event loop: their watches, and requests at chosen rates.

A node opens the watches that a kubelet and kube-proxy have all the time. Each is a TLS connection of its own, since the
server has no HTTP/2. A watch is a protocol that keeps nothing of what it receives, so that 35,000 fit into one process.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import itertools
import math
import socket
import ssl
import struct
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast

from benchmarks.api_load import Load, encode_request

_PROXIED = "labelSelector=%21service.kubernetes.io%2Fheadless%2C%21service.kubernetes.io%2Fservice-proxy-name"
# The watches of a node by resource: a kubelet's and kube-proxy's. `{node}` is the node's name.
WATCHES = {
    "pods": ("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}",),
    "nodes": ("/api/v1/nodes?fieldSelector=metadata.name%3D{node}",) * 2,
    "configmaps": ("/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Dkube-root-ca.crt",),
    "services": ("/api/v1/services", f"/api/v1/services?{_PROXIED}"),
    "endpointslices": (f"/apis/discovery.k8s.io/v1/endpointslices?{_PROXIED}",),
}
# Connections that are opened at the same time: each costs both sides a TLS handshake.
_OPENING = 50
# A source address has some 28,000 ports by default.
_PORTS_PER_ADDRESS = 20_000
_LEFT_SECONDS = 60.0


class Probe:
    """A text that all watches of a resource are to receive. `last` is the time when the last of them had it."""

    def __init__(self, mark: bytes, watches: int) -> None:
        self.mark = mark
        self.missing = watches
        self.last = 0.0
        self.done = asyncio.Event()

    def receive(self) -> None:
        self.missing -= 1
        if not self.missing:
            self.last = time.perf_counter()
            self.done.set()


class _Watch(asyncio.Protocol):
    __slots__ = ("_group", "_is_open", "_request", "_seen", "_tail")

    def __init__(self, group: Watches, request: bytes, is_open: asyncio.Future[None]) -> None:
        self._group = group
        self._request = request
        self._is_open: asyncio.Future[None] | None = is_open
        self._tail = b""
        self._seen: Probe | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        group = self._group
        group.received += len(data)
        if self._is_open is not None:
            if not data.startswith(b"HTTP/1.1 200"):
                group.refused += 1
            self._is_open.set_result(None)
            self._is_open = None
        probe = group.probe
        if probe is not None and self._seen is not probe:
            # An event may arrive in pieces.
            if probe.mark in self._tail + data:
                self._seen = probe
                self._tail = b""
                probe.receive()
            else:
                self._tail = data[-len(probe.mark) :]

    def connection_lost(self, exc: Exception | None) -> None:
        self._group.lost += 1
        if self._is_open is not None and not self._is_open.done():
            self._is_open.set_exception(exc or ConnectionError("the server closed the watch"))


class Watches:
    """The watches of all nodes of one resource: bytes they received, watches that the server refused or ended."""

    def __init__(self, resource: str) -> None:
        self.resource = resource
        self.count = 0
        self.received = 0
        self.refused = 0
        self.lost = 0
        self.probe: Probe | None = None
        self._transports: list[asyncio.BaseTransport] = []

    async def open(self, port: int, context: ssl.SSLContext, nodes: int, version: str) -> None:
        """Open the watches of nodes 0 to `nodes` from a resourceVersion on. Raises OSError."""
        paths = (
            f"{path}{'&' if '?' in path else '?'}watch=1&allowWatchBookmarks=true&resourceVersion={version}"
            for path in WATCHES[self.resource]
        )
        requests = ((path.replace("{node}", f"node-{node}")) for path in paths for node in range(nodes))

        async def open_some() -> None:
            for path in requests:
                await self._open_one(port, context, encode_request("GET", path))

        await asyncio.gather(*(open_some() for _ in range(_OPENING)))

    async def _open_one(self, port: int, context: ssl.SSLContext, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        is_open: asyncio.Future[None] = loop.create_future()
        source = f"127.0.{_source(self.resource)}.{1 + self.count // _PORTS_PER_ADDRESS}"
        self.count += 1
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.setblocking(False)
        connection.bind((source, 0))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await loop.sock_connect(connection, ("127.0.0.1", port))
        transport, _ = await loop.create_connection(
            lambda: _Watch(self, request, is_open), sock=connection, ssl=context, server_hostname="127.0.0.1"
        )
        await is_open
        self._transports.append(transport)

    def expect(self, mark: str) -> Probe:
        """Wait from now on for this text in each watch."""
        self.probe = Probe(mark.encode(), self.count)
        return self.probe

    def close(self) -> None:
        for transport in self._transports:
            cast("asyncio.Transport", transport).abort()


def _source(resource: str) -> int:
    return 1 + list(WATCHES).index(resource)


class Rate(NamedTuple):
    """Requests of one kind, `per_second`. The requests of a tuple are sent one after the other."""

    kind: str
    per_second: float
    requests: Iterator[tuple[bytes, ...]]


class _Due(NamedTuple):
    """Requests and the time at which they are due; 0: at once."""

    at: float
    load: Load
    requests: tuple[bytes, ...]


class Paced:
    """Requests at rates for some seconds, over the connections of `Clients`.

    A server that is too slow gets fewer: `missed` counts what was due but not sent when the time was over.
    Latencies are counted from the time at which a request was due, or could be sent.
    """

    def __init__(self, rates: list[Rate], seconds: float) -> None:
        self._rates = [rate for rate in rates if rate.per_second > 0]
        self._seconds = seconds
        self.loads: dict[str, Load] = {rate.kind: Load(seconds=seconds) for rate in self._rates}
        self.missed = 0

    async def run(self, clients: Clients) -> None:
        """Send the requests. Raises OSError."""
        begin = time.perf_counter()
        due = heapq.merge(*(self._schedule(rate, begin) for rate in self._rates), key=lambda entry: entry.at)
        await clients.send(due, begin + self._seconds)
        self.missed = sum(1 for _ in due)

    def _schedule(self, rate: Rate, begin: float) -> Iterator[_Due]:
        for number in range(int(rate.per_second * self._seconds)):
            yield _Due(begin + number / rate.per_second, self.loads[rate.kind], next(rate.requests))


class Clients:
    """Connections that stay open, so that handshakes are no part of what is measured. Owners call `close`."""

    def __init__(self, connections: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]) -> None:
        self._connections = connections

    @classmethod
    async def open(cls, port: int, context: ssl.SSLContext, count: int) -> Clients:
        """Connect. Raises OSError."""
        open_one = functools.partial(
            asyncio.open_connection, "127.0.0.1", port, ssl=context, server_hostname="127.0.0.1"
        )
        return cls(await asyncio.gather(*(open_one() for _ in range(count))))

    async def send_all(self, requests: Iterable[tuple[bytes, ...]]) -> Load:
        """Send requests as fast as they are answered. Raises OSError."""
        load, begin = Load(), time.perf_counter()
        await self.send((_Due(0.0, load, each) for each in requests), math.inf)
        load.seconds = time.perf_counter() - begin
        return load

    async def send(self, due: Iterator[_Due], end: float) -> None:
        """Send what is due, on each connection one request at a time, until there is no more or the time is over."""
        await asyncio.gather(*(_send(reader, writer, due, end) for reader, writer in self._connections))

    def close(self) -> None:
        for _, writer in self._connections:
            writer.transport.abort()


async def _send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, due: Iterator[_Due], end: float) -> None:
    while time.perf_counter() < end and (entry := next(due, None)) is not None:
        await asyncio.sleep(max(0.0, entry.at - time.perf_counter()))
        begun = entry.at or time.perf_counter()
        for request in entry.requests:
            writer.write(request)
            async with asyncio.timeout(_LEFT_SECONDS):
                status = await _read_answer(reader)
            load, now = entry.load, time.perf_counter()
            load.latencies.append(now - begun)
            begun = now
            if status // 100 != 2:
                load.refused[status] = load.refused.get(status, 0) + 1


async def _read_answer(reader: asyncio.StreamReader) -> int:
    """Read an answer to its end; return its status."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    lines = head.split(b"\r\n")
    length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), None)
    if length is not None:
        await reader.readexactly(length)
    else:
        await reader.readuntil(b"\r\n0\r\n\r\n")
    return int(head[9:12])


def round_robin(count: int) -> Iterator[tuple[int, int]]:
    """Yield (round, number) with the numbers below `count` again and again."""
    return ((index // count, index % count) for index in itertools.count())

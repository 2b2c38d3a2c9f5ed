"""HTTP server for health, readiness and metrics pages.

The server answers one request for each connection: probes and scrapers need no more. The pages themselves are in
`proxy/operating/` and `dns/`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from bridgehead.objects.addresses import join_host_port

_REQUEST_SECONDS = 10
_BACKLOG = 128
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    503: "Service Unavailable",
}


class Page(NamedTuple):
    """A response. `headers` are added to those that every response has."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


class Negotiated(NamedTuple):
    """A page in the form that the client prefers. `render` takes the request's header Accept."""

    render: Callable[[str], Page]


Handler = Callable[[str, str, str], Page]  # takes method, path and the header Accept
Routes = Mapping[str, Callable[[], Page] | Negotiated]


def metrics_page(exposition: bytes) -> Page:
    """Return a page of metrics in Prometheus' text format."""
    return Page(200, exposition, "text/plain; version=0.0.4; charset=utf-8")


def route(routes: Routes) -> Handler:
    """Return a handler of GET and HEAD for these paths."""

    def handle(method: str, path: str, accept: str) -> Page:
        if method not in ("GET", "HEAD"):
            return Page(405 if method.isalpha() else 400, b"")
        page = routes.get(path)
        if page is None:
            return Page(404, b"404 page not found\n")
        return page.render(accept) if isinstance(page, Negotiated) else page()

    return handle


async def serve(address: tuple[str, int], routes: Routes, *, shared: bool = False) -> None:
    """Serve until cancelled. `shared`: several processes share the port (SO_REUSEPORT).

    Raises OSError, with the address as its file name.
    """
    try:
        server = await listen([address], route(routes), shared=shared)
    except OSError as error:
        error.filename = join_host_port(*address)
        raise
    async with server:
        await server.serve_forever()


class Server:
    """Listeners on several addresses. Use as an async context manager, or `close` it.

    Connections that are open at that time are still answered.
    """

    def __init__(self, servers: list[asyncio.Server]) -> None:
        self._servers = servers

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        # asyncio (3.11) drops connections that it has accepted but not handed over when a server is closed.
        loop = asyncio.get_running_loop()
        for server in self._servers:
            for sock in server.sockets:
                loop.remove_reader(sock.fileno())
        for _ in range(2):
            await asyncio.sleep(0)
        for server in self._servers:
            server.close()

    async def serve_forever(self) -> None:
        await asyncio.gather(*(server.serve_forever() for server in self._servers))


async def listen(addresses: Iterable[tuple[str, int]], handler: Handler, *, shared: bool = False) -> Server:
    """Listen on all addresses, or on none and raise OSError.

    "", "0.0.0.0" and "::" each mean every address of both families, as in programs written in Go.
    """
    sockets: list[socket.socket] = []
    try:
        for host, port in addresses:
            sockets += _open_sockets(host, port, shared)
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return Server([await asyncio.start_server(_conversation(handler), sock=sock) for sock in sockets])


def _open_sockets(host: str, port: int, shared: bool) -> list[socket.socket]:
    found = []
    is_everywhere = host in ("", "0.0.0.0", "::")
    for text in ["0.0.0.0", "::"] if is_everywhere else [host]:
        sock = None
        try:
            sock = socket.socket(socket.AF_INET6 if ":" in text else socket.AF_INET, socket.SOCK_STREAM)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if ":" in text:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((text, port))
            sock.listen(_BACKLOG)
            sock.setblocking(False)
            found.append(sock)
        except OSError as error:
            if sock is not None:
                sock.close()
            if is_everywhere and text == "::" and error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                continue  # the node has no IPv6
            for other in found:
                other.close()
            raise
    return found


def _conversation(handler: Handler) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_respond(head, handler))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass  # the client has closed the connection, or sent no valid request in time
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    return handle


def _respond(head: bytes, handler: Handler) -> bytes:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, _, rest = first.partition(" ")
    accepted = (line.partition(":")[2].strip() for line in lines if line[:7].lower() == "accept:")
    page = handler(method, rest.partition(" ")[0].partition("?")[0], ",".join(accepted))
    headers = [
        ("Content-Type", page.content_type),
        *page.headers,
        ("Date", time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())),
        ("Content-Length", str(len(page.body))),
        ("Connection", "close"),
    ]
    answer = [f"HTTP/1.1 {page.status} {_REASONS[page.status]}", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join(answer).encode() + b"\r\n\r\n" + (page.body if method != "HEAD" else b"")

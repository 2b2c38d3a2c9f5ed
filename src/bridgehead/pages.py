"""HTTP server for health, readiness and metrics pages.

The server answers one request for each connection: probes and scrapers need no more. The pages themselves belong to
the programs that serve them: the proxy, the DNS, the balancer and the controllers.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from prometheus_client.registry import Collector

from bridgehead.exposition.formats import render
from bridgehead.go_http import NOT_FOUND, render_head
from bridgehead.objects.addresses import join_host_port

_REQUEST_SECONDS = 10
_BACKLOG = 128


class Page(NamedTuple):
    """A response. `headers` are added to those that every response has."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


class Request(NamedTuple):
    """A request before it is answered. `peer`: the client's address; `is_secure`: it came over TLS.

    `authorization`, `accept`: the headers of these names, "" without one.
    """

    method: str
    path: str
    peer: str
    is_secure: bool
    authorization: str
    accept: str = ""


class Negotiated(NamedTuple):
    """A page in the form that the client prefers. `render` takes the request's header Accept."""

    render: Callable[[str], Page]


Handler = Callable[[str, str, str], Page]  # takes method, path and the header Accept
Access = Callable[
    [Request], Awaitable[Page | None]
]  # returns the answer to a client without the right; None: it has it
Routes = Mapping[str, Callable[[], Page] | Negotiated]


def metrics_page(registry: Collector) -> Negotiated:
    """Return the page of these metrics."""

    def show(accept: str) -> Page:
        body, content_type = render(registry, accept)
        return Page(200, body, content_type)

    return Negotiated(show)


def route(routes: Routes) -> Handler:
    """Return a handler of GET and HEAD for these paths."""

    def handle(method: str, path: str, accept: str) -> Page:
        if method not in ("GET", "HEAD"):
            return Page(405 if method.isalpha() else 400, b"")
        page = routes.get(path)
        if page is None:
            return Page(404, NOT_FOUND.encode())
        return page.render(accept) if isinstance(page, Negotiated) else page()

    return handle


async def serve(
    address: tuple[str, int],
    routes: Routes,
    *,
    shared: bool = False,
    access: Access | None = None,
    context: ssl.SSLContext | None = None,
) -> None:
    """Serve until cancelled. `shared`: several processes share the port (SO_REUSEPORT).

    `access` decides who gets an answer; None: everybody does. `context`: for TLS. Raises OSError, with the address as
    its file name.
    """
    try:
        server = await listen([address], route(routes), shared=shared, access=access, context=context)
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


async def listen(
    addresses: Iterable[tuple[str, int]],
    handler: Handler,
    *,
    shared: bool = False,
    access: Access | None = None,
    context: ssl.SSLContext | None = None,
) -> Server:
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
    conversation, seconds = _conversation(handler, access), None if context is None else _REQUEST_SECONDS
    return Server(
        [
            await asyncio.start_server(conversation, sock=sock, ssl=context, ssl_handshake_timeout=seconds)
            for sock in sockets
        ]
    )


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


def _conversation(
    handler: Handler, access: Access | None
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                request = _parse(head, writer)
                refusal = await access(request) if access is not None else None
                page = handler(request.method, request.path, request.accept) if refusal is None else refusal
                writer.write(_respond(request.method, page))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ssl.SSLError):
            pass  # the client has closed the connection, or sent no valid request in time
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    return handle


def _parse(head: bytes, writer: asyncio.StreamWriter) -> Request:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, _, rest = first.partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    headers: dict[str, list[str]] = {}
    for name, _, value in (line.partition(":") for line in lines):
        headers.setdefault(name.lower(), []).append(value.strip())
    authorization = next(iter(headers.get("authorization", ())), "")
    accept = ",".join(headers.get("accept", ()))
    peer = writer.get_extra_info("peername") or ("",)
    return Request(method, path, peer[0], writer.get_extra_info("ssl_object") is not None, authorization, accept)


def _respond(method: str, page: Page) -> bytes:
    headers = (
        ("Content-Type", page.content_type),
        *page.headers,
        ("Date", time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())),
        ("Content-Length", str(len(page.body))),
        ("Connection", "close"),
    )
    written = render_head(page.status, [(name.encode(), value.encode()) for name, value in headers])
    return written + (page.body if method != "HEAD" else b"")

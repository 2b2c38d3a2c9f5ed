"""Requests and streams that are under way, so that those of a server that does not answer can be ended at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from types import SimpleNamespace

from .http_library import aiohttp


class OpenRequest:
    """A request at one server. Within `limit`, it waits for the answer; later, `response` is the answer.

    With `has_connection`, the server may have received it; `connection_trace` sets that.
    """

    def __init__(self, server: str) -> None:
        self.server = server
        self.is_abandoned = False
        self.has_connection = False
        self.limit: asyncio.Timeout | None = None
        self.response: aiohttp.ClientResponse | None = None

    def abandon(self) -> None:
        """End the request: whoever waits for its answer or reads it gets an error."""
        self.is_abandoned = True
        if self.response is not None:
            abort(self.response)
        elif self.limit is not None:
            self.limit.reschedule(asyncio.get_running_loop().time())


class OpenRequests:
    """The requests of one client."""

    def __init__(self) -> None:
        self._requests: dict[str, set[OpenRequest]] = {}  # by server

    @contextlib.contextmanager
    def during(self, server: str) -> Iterator[OpenRequest]:
        """A request at a server, until the end of the block."""
        request = OpenRequest(server)
        requests = self._requests.setdefault(server, set())
        requests.add(request)
        try:
            yield request
        finally:
            requests.discard(request)

    def servers(self) -> list[str]:
        """Return the servers that have requests."""
        return [server for server, requests in self._requests.items() if requests]

    def abandon(self, server: str) -> None:
        """End all requests of a server."""
        for request in tuple(self._requests.get(server, ())):
            request.abandon()


def connection_trace() -> aiohttp.TraceConfig:
    """Return a trace for a session whose requests have their OpenRequest as `trace_request_ctx`."""

    async def on_connection(_session: aiohttp.ClientSession, context: SimpleNamespace, _: object) -> None:
        if isinstance(request := context.trace_request_ctx, OpenRequest):  # WebSockets have none
            request.has_connection = True

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(on_connection)
    trace.on_connection_reuseconn.append(on_connection)
    return trace


def abort(response: aiohttp.ClientResponse) -> None:
    """Close the connection of an answer that has not ended, at once: TLS would wait for the server's farewell."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()

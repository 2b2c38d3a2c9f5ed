"""TCP and TLS connections to upstreams (RFC 7766, 7858), kept open for reuse.

`forward.py` calls this for answers that UDP truncates, and for upstreams that are asked by TCP or TLS only. A
connection carries one query at a time, so there are as many connections as concurrent queries.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Iterable

from bridgehead.dns.config import Server, Tls
from bridgehead.dns.errors import BadPacket, ConfigInvalid
from bridgehead.tls_certificates import verifying_context

IDLE_SECONDS = 10.0


_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Connections:
    """Connections to `servers`. Needs `close` at the end. Raises ConfigInvalid for invalid certificate files."""

    def __init__(self, servers: Iterable[Server], idle_seconds: float = IDLE_SECONDS, most_idle: int = 0) -> None:
        """Idle connections are kept for `idle_seconds`, at most `most_idle` for each server (0: any number)."""
        self._contexts = {tls: _context(tls) for _, _, tls in servers if tls is not None}
        self._idle_seconds = idle_seconds
        self._most_idle = most_idle
        self._idle: dict[Server, dict[_Connection, asyncio.TimerHandle]] = {}
        self._is_closed = False

    async def exchange(self, server: Server, query: bytes) -> bytes:
        """Return the reply with the query's id. Raises OSError, BadPacket, IncompleteReadError."""
        while idle := self._idle.get(server):
            connection, expiry = idle.popitem()  # the last one used, so that the others expire
            expiry.cancel()
            # The server may close an idle connection at any moment. A new connection can still work.
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                return await self._ask(server, connection, query)
        return await self._ask(server, await self._connect(server), query)

    def close(self) -> None:
        """Close idle connections at once, and busy ones after their reply."""
        self._is_closed = True
        for idle in self._idle.values():
            for connection, expiry in idle.items():
                expiry.cancel()
                connection[1].transport.abort()
        self._idle.clear()

    async def _connect(self, server: Server) -> _Connection:
        host, port, tls = server
        if tls is None:
            return await asyncio.open_connection(host, port)
        context = self._contexts[tls]
        return await asyncio.open_connection(host, port, ssl=context, server_hostname=tls.name or host)

    async def _ask(self, server: Server, connection: _Connection, query: bytes) -> bytes:
        reader, writer = connection
        is_valid = False
        try:
            writer.write(len(query).to_bytes(2, "big") + query)
            reply = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
            if reply[:2] != query[:2]:
                raise BadPacket("a reply with another id")
            is_valid = True
        finally:
            idle = len(self._idle.get(server, ()))
            if is_valid and not self._is_closed and not 0 < self._most_idle <= idle:
                self._keep(server, connection)
            else:
                writer.transport.abort()
        return reply

    def _keep(self, server: Server, connection: _Connection) -> None:
        def expire() -> None:
            del self._idle[server][connection]
            connection[1].transport.abort()

        loop = asyncio.get_running_loop()
        self._idle.setdefault(server, {})[connection] = loop.call_later(self._idle_seconds, expire)


def _context(tls: Tls) -> ssl.SSLContext:
    try:
        context = verifying_context(cafile=tls.authority or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigInvalid(f"{tls.authority}: {_reason(error)}") from error
    if tls.certificate:
        try:
            context.load_cert_chain(tls.certificate, tls.key or None)
        except (OSError, ssl.SSLError) as error:
            raise ConfigInvalid(f"{tls.certificate}, {tls.key}: {_reason(error)}") from error
    return context


def _reason(error: OSError) -> str:
    return "not a certificate and its key" if isinstance(error, ssl.SSLError) else str(error.strerror)

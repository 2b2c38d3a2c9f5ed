"""Connections to upstreams by TCP and TLS (RFC 7766, 7858), each kept for a while to be used again.

`upstream.py` asks through here what is too big for UDP, and servers that are to be asked in no other way. A connection
carries one question at a time; as many are open as there are questions.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Iterable
from typing import NamedTuple

from bridgehead.objects.addresses import join_host_port

from .errors import BadPacket, ConfigInvalid

IDLE_SECONDS = 10.0
TLS_PORT = 853


class Tls(NamedTuple):
    """How a server proves who it is: `name` stands in its certificate ("": its address does), for which those answer
    that are in the file `authority` ("": whom this machine trusts). `certificate` and `key`: files by which we do."""

    name: str = ""
    authority: str = ""
    certificate: str = ""
    key: str = ""


class Server(NamedTuple):
    """Somebody who is asked. Without `tls` the bytes are plain."""

    host: str
    port: int = 53
    tls: Tls | None = None

    def __str__(self) -> str:
        return join_host_port(self.host, self.port)


_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Connections:
    """Those to `servers`. Has to be closed in the end. Raises ConfigInvalid for files that are no certificates."""

    def __init__(self, servers: Iterable[Server], idle_seconds: float = IDLE_SECONDS) -> None:
        self._contexts = {tls: _context(tls) for _, _, tls in servers if tls is not None}
        self._idle_seconds = idle_seconds
        self._idle: dict[Server, dict[_Connection, asyncio.TimerHandle]] = {}
        self._is_closed = False

    async def exchange(self, server: Server, query: bytes) -> bytes:
        """The reply with the query's id. Raises OSError, BadPacket, IncompleteReadError."""
        while idle := self._idle.get(server):
            connection, expiry = idle.popitem()  # the last one used: the others may expire
            expiry.cancel()
            # The server may end it while the question is under way. That says nothing of a new one.
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                return await self._ask(server, connection, query)
        return await self._ask(server, await self._connect(server), query)

    def close(self) -> None:
        """Those that are in use are closed when they have been."""
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
        is_sound = False
        try:
            writer.write(len(query).to_bytes(2, "big") + query)
            reply = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
            if reply[:2] != query[:2]:
                raise BadPacket("a reply with another id")
            is_sound = True
        finally:
            if is_sound and not self._is_closed:
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
        context = ssl.create_default_context(cafile=tls.authority or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigInvalid(f"{tls.authority}: {_reason(error)}") from error
    if tls.certificate:
        try:
            context.load_cert_chain(tls.certificate, tls.key or None)
        except (OSError, ssl.SSLError) as error:
            raise ConfigInvalid(f"{tls.certificate}, {tls.key}: {_reason(error)}") from error
    return context


def _reason(error: OSError) -> str:
    return "not certificates and a key" if isinstance(error, ssl.SSLError) else str(error.strerror)

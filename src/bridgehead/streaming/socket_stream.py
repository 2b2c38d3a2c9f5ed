"""A connection to a server as a stream of bytes: TCP or TLS on a socket, without a queue in between.

asyncio's transports can't end one direction of a TLS connection, and one that can't write any more drops what it has
not read. Here both directions are independent, as with Go's connections.

OpenSSL gets bytes in memory only, as in asyncio's transports, and makes no system calls. Recent ones put a failed write
to a socket into the thread's queue of errors, also that of the alert at an unexpected end, and Python leaves it there
(seen in 3.13.5 with OpenSSL 3.5.9). Reads of all other TLS connections of the thread then fail with it.
Source: https://github.com/python/cpython/issues/148594.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import ssl
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_CHUNK = 64 * 1024
# Values of Go's dialer: a peer whose machine is gone is noticed within two and a half minutes.
_KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 9))


def keep_alive(connection: socket.socket) -> None:
    """Have the kernel notice when the peer's machine is gone. Connections that a listener accepts inherit it."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEP_ALIVE:
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


class _TlsSession:
    """TLS between plain bytes and those of the connection, which the owner moves. No I/O."""

    def __init__(self, context: ssl.SSLContext, name: str) -> None:
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.plain = context.wrap_bio(self.incoming, self.outgoing, server_hostname=name)


class SocketStream:
    """An open connection. One task may read while another one writes. The owner calls `close`."""

    def __init__(self, connection: socket.socket) -> None:
        """`connection` does not block; it belongs to the stream from now on."""
        self._socket = connection
        self._loop = asyncio.get_running_loop()
        self._tls: _TlsSession | None = None
        self._sending = asyncio.Lock()
        self._waiting: dict[bool, list[asyncio.Future[None]]] = {False: [], True: []}  # for readability, writability

    @classmethod
    async def connect(
        cls, host: str, port: int, tls: ssl.SSLContext | None = None, server_name: str = ""
    ) -> SocketStream:
        """Connect to a host by name or address. Raises OSError, of which ssl.SSLError is one."""
        loop = asyncio.get_running_loop()
        failure: OSError = OSError(f"no address of {host}")
        for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            connection = socket.socket(family, kind | socket.SOCK_NONBLOCK, protocol)
            try:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                keep_alive(connection)
                await loop.sock_connect(connection, address)
            except OSError as error:
                connection.close()
                failure = error
                continue
            except BaseException:
                connection.close()
                raise
            stream = cls(connection)
            try:
                if tls is not None:
                    await stream._start_tls(tls, server_name or host)
            except BaseException:
                stream.close()
                raise
            return stream
        raise failure

    async def read(self) -> bytes:
        """Return the next bytes, b"" after the peer's last one, or when the connection is lost.

        Yields to the event loop before each chunk: a reader whose bytes never run out would keep it from all others.
        """
        await asyncio.sleep(0)
        try:
            if self._tls is None:
                return await self._receive()
            return await self._advance(self._tls, functools.partial(self._tls.plain.read, _CHUNK))
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        """Write all of the data. Raises OSError when the connection is lost."""
        view = memoryview(data)
        if self._tls is None:
            await self._send(view)
            return
        while view:
            view = view[self._tls.plain.write(view[:_CHUNK]) :]
            await self._flush(self._tls)

    def end(self) -> None:
        """End this side's bytes. The direction of the TCP connection ends, also under TLS."""
        with contextlib.suppress(OSError):
            # TLS' own end would end the other direction, too, for peers that do not support half-closed connections.
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        fd = self._socket.fileno()
        if fd >= 0:
            self._loop.remove_reader(fd)
            self._loop.remove_writer(fd)
            self._socket.close()

    # --- TLS ------------------------------------------------------------------------------------------------------

    async def _start_tls(self, context: ssl.SSLContext, name: str) -> None:
        self._tls = _TlsSession(context, name)
        await self._advance(self._tls, self._tls.plain.do_handshake)

    async def _advance(self, tls: _TlsSession, action: Callable[[], T]) -> T:
        """Call until it needs no more bytes of the peer, and send what it answers."""
        while True:
            try:
                result = action()
            except ssl.SSLWantReadError:
                await self._answer(tls)
                if data := await self._receive():
                    tls.incoming.write(data)
                else:
                    tls.incoming.write_eof()
            except ssl.SSLError:
                if not self._sending.locked():
                    with contextlib.suppress(OSError):
                        self._socket.send(tls.outgoing.read())  # an alert; the session has ended
                raise
            else:
                await self._answer(tls)
                return result

    async def _answer(self, tls: _TlsSession) -> None:
        """Send what a handshake or a read has produced, unless a writer is at it, for which a reader must not wait."""
        if tls.outgoing.pending and not self._sending.locked():
            await self._flush(tls)

    async def _flush(self, tls: _TlsSession) -> None:
        """Send what is encrypted, in its order."""
        async with self._sending:
            while data := tls.outgoing.read():
                await self._send(memoryview(data))

    # --- The socket -----------------------------------------------------------------------------------------------

    async def _receive(self) -> bytes:
        return await self._retry(functools.partial(self._socket.recv, _CHUNK), writes=False)

    async def _send(self, view: memoryview) -> None:
        while view:
            sent = await self._retry(functools.partial(self._socket.send, view[:_CHUNK]), writes=True)
            view = view[sent:]

    async def _retry(self, action: Callable[[], T], *, writes: bool) -> T:
        """Call until it does not block."""
        while True:
            try:
                return action()
            except BlockingIOError:
                await self._wait(writes=writes)

    async def _wait(self, *, writes: bool) -> None:
        """Wait until the socket may be readable or writable."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting[writes].append(future)
        add = self._loop.add_writer if writes else self._loop.add_reader
        add(self._socket.fileno(), self._wake, writes)
        await future

    def _wake(self, writes: bool) -> None:
        remove = self._loop.remove_writer if writes else self._loop.remove_reader
        remove(self._socket.fileno())
        waiting, self._waiting[writes] = self._waiting[writes], []
        for future in waiting:
            if not future.done():
                future.set_result(None)

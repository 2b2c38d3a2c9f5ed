"""A connection to a server as a stream of bytes: TCP or TLS on a socket, without a buffer in between.

asyncio's transports can't end one direction of a TLS connection, and one that can't write any more drops what it has
not read. Here both directions are independent, as with Go's connections.
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


class SocketStream:
    """An open connection. One task may read while another one writes. The owner calls `close`."""

    def __init__(self, connection: socket.socket) -> None:
        """`connection` does not block; it belongs to the stream from now on."""
        self._socket = connection
        self._loop = asyncio.get_running_loop()
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
            return await cls._secured(connection, tls, server_name or host)
        raise failure

    @classmethod
    async def _secured(cls, connection: socket.socket, tls: ssl.SSLContext | None, name: str) -> SocketStream:
        if tls is None:
            return cls(connection)
        try:
            secured = tls.wrap_socket(connection, server_hostname=name, do_handshake_on_connect=False)
        except BaseException:
            connection.close()
            raise
        stream = cls(secured)
        try:
            await stream._retry(secured.do_handshake, writes=False)
        except BaseException:
            stream.close()
            raise
        return stream

    async def read(self) -> bytes:
        """Return the next bytes, b"" after the peer's last one, or when the connection is lost.

        Yields to the event loop before each chunk: a reader whose bytes never run out would keep it from all others.
        """
        await asyncio.sleep(0)
        try:
            return await self._retry(functools.partial(self._socket.recv, _CHUNK), writes=False)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        """Write all of the data. Raises OSError when the connection is lost."""
        view = memoryview(data)
        while view:
            sent = await self._retry(functools.partial(self._socket.send, view[:_CHUNK]), writes=True)
            view = view[sent:]

    def end(self) -> None:
        """End this side's bytes. The direction of the TCP connection ends, also under TLS."""
        with contextlib.suppress(OSError):
            # The method of a TLS socket would drop the TLS session, and with it what the peer still sends.
            socket.socket.shutdown(self._socket, socket.SHUT_WR)

    def close(self) -> None:
        fd = self._socket.fileno()
        if fd >= 0:
            self._loop.remove_reader(fd)
            self._loop.remove_writer(fd)
            self._socket.close()

    async def _retry(self, action: Callable[[], T], *, writes: bool) -> T:
        """Call until it does not block."""
        while True:
            try:
                return action()
            except ssl.SSLWantWriteError:
                await self._wait(writes=True)
            except ssl.SSLWantReadError:
                await self._wait(writes=False)
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

"""A connection as a stream of bytes with back-pressure in both directions, for both ends of a hop.

`asyncio.StreamReader` would do for reading, but it can't take a connection over from another protocol, and it forgets
what it has received when the connection is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

# Reading pauses while more bytes wait to be taken.
_HIGH_WATER_BYTES = 64 * 1024


class ByteStream(asyncio.Protocol):
    """The protocol of a transport. Bytes that were received before the end are returned before it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._received = bytearray()
        self._has_ended = False
        self._changed = asyncio.Event()
        self._lost = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self.last_active = asyncio.get_running_loop().time()
        # For `linger`: whether nothing follows these bytes, by the protocol that the peer speaks.
        self.is_end: Callable[[bytes], bool] = lambda _data: False
        transport.set_protocol(self)

    @property
    def is_lost(self) -> bool:
        """Whether the connection is closed, so that what is written goes nowhere."""
        return self._lost.is_set()

    # --- Called by the transport ----------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self.last_active = asyncio.get_running_loop().time()
        self._received += data
        self._changed.set()
        if len(self._received) > _HIGH_WATER_BYTES:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """The peer sends nothing more. Without TLS, the transport stays open for writing."""
        self._has_ended = True
        self._changed.set()
        return self._transport.get_extra_info("sslcontext") is None

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_ended = True
        self._changed.set()
        self._lost.set()
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # --- The stream -----------------------------------------------------------------------------------------------

    async def read(self) -> bytes:
        """Return the next bytes, b"" after the peer's last one."""
        while not self._received and not self._has_ended:
            self._changed.clear()
            await self._changed.wait()
        data = bytes(self._received)
        self._received.clear()
        if not self._transport.is_closing():
            self._transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        """Write, and wait while the peer does not keep up. Raises ConnectionResetError when it is gone."""
        if self.is_lost:
            raise ConnectionResetError
        self._transport.write(data)
        await self._writable.wait()
        self.last_active = asyncio.get_running_loop().time()

    def end(self) -> None:
        """End this side's bytes. With TLS, the whole connection ends when they are sent."""
        if self._transport.can_write_eof() and not self._transport.is_closing():
            self._transport.write_eof()
        else:
            self._transport.close()

    def close(self) -> None:
        """Close the connection when what was written is sent."""
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    async def wait_lost(self) -> None:
        """Wait until the connection is closed."""
        await self._lost.wait()

    async def linger(self, seconds: float) -> None:
        """Read and drop what still comes until the peer's end or `is_end`, for so long at most.

        A connection that is closed before its peer has stopped sending is reset, and the peer may lose what was
        written last.
        """
        if self.is_end(b""):
            return
        try:
            async with asyncio.timeout(seconds):
                while (data := await self.read()) and not self.is_end(data):
                    pass
        except TimeoutError:
            pass

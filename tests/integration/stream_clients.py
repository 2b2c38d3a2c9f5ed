"""Clients of exec and port-forward, byte by byte, and a runtime whose commands are processes."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import struct
import subprocess
from typing import Any

from bridgehead.kubelet.runtimes.runtime import ExecSession
from bridgehead.streaming import spdy
from tests.integration.fake_runtime import FakeRuntime
from tests.spdy_client import ClientWriter

_MASK = b"\x0f\xf0\x55\xaa"
_CHANNELS = {"error": 3, "stdin": 0, "stdout": 1, "stderr": 2}


class ProcessSession:
    """A command of this machine, whose streams are pipes. A closed session's command goes on, and its output is
    dropped."""

    def __init__(self, argv: tuple[str, ...], *, stdin: bool, stderr: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if stderr else subprocess.STDOUT,
        )
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self.stdin_fd, self.stdout_fd, self.stderr_fd = (None if p is None else os.dup(p.fileno()) for p in pipes)
        self._dropped = [] if self.stdout_fd is None else [os.dup(self.stdout_fd)]
        for pipe in pipes:
            if pipe is not None:
                pipe.close()
        for fd in (self.stdin_fd, self.stdout_fd, self.stderr_fd):
            if fd is not None:
                os.set_blocking(fd, False)
        self.code: asyncio.Future[int] = self._loop.create_future()
        self._pidfd = os.pidfd_open(self._process.pid)
        self._loop.add_reader(self._pidfd, self._on_exit)

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self.code.set_result(self._process.wait())
        for fd in self._dropped:
            self._loop.remove_reader(fd)
            os.close(fd)

    async def wait(self) -> int:
        return await asyncio.shield(self.code)

    def resize(self, columns: int, rows: int) -> None:
        raise AssertionError("the command has no terminal")

    async def close(self) -> None:
        for fd in (self.stdin_fd, self.stdout_fd, self.stderr_fd):
            if fd is not None:
                os.close(fd)
        self.stdin_fd = self.stdout_fd = self.stderr_fd = None
        if not self.code.done():
            for fd in self._dropped:
                self._loop.add_reader(fd, os.read, fd, 65536)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()


class ProcessRuntime(FakeRuntime):
    """A `FakeRuntime` that runs the commands of exec."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.processes: list[ProcessSession] = []

    async def open_exec(
        self, container_id: str, argv: tuple[str, ...], *, stdin: bool, tty: bool, stderr: bool = True
    ) -> ExecSession:
        session = ProcessSession(argv, stdin=stdin, stderr=stderr)
        self.processes.append(session)
        return session


class Wire:
    """A connection after its upgrade."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, address: tuple[str, int], method: str, path: str, headers: dict[str, str]) -> Wire:
        reader, writer = await asyncio.open_connection(*address)
        lines = [f"{method} {path} HTTP/1.1", "Host: x", "Authorization: Bearer admin", "Connection: Upgrade"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join((*lines, "", "")).encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 "), head
        return cls(reader, writer)

    async def leave(self) -> None:
        """Close the connection at once."""
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


def frame(opcode: int, content: bytes) -> bytes:
    """A frame of a WebSocket as a client sends it."""
    size = len(content)
    mask = int.from_bytes((_MASK * (size // 4 + 1))[:size], "little")
    masked = (int.from_bytes(content, "little") ^ mask).to_bytes(size, "little")
    return struct.pack(">BBQ", 0x80 | opcode, 0x80 | 127, size) + _MASK + masked


class SocketClient:
    """Channels over a WebSocket of `protocol` ("": none is named)."""

    def __init__(self, wire: Wire, protocol: str) -> None:
        self.wire = wire
        self._is_base64 = "base64" in protocol
        self._has_close = protocol.startswith("v5")

    @classmethod
    async def open(cls, address: tuple[str, int], path: str, protocol: str) -> SocketClient:
        headers = {"Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "A" * 22 + "=="}
        if protocol:
            headers["Sec-WebSocket-Protocol"] = protocol
        return cls(await Wire.open(address, "GET", path, headers), protocol)

    async def send(self, data: bytes) -> None:
        """Send input in one message."""
        if self._is_base64:
            self.wire.writer.write(frame(1, b"0" + base64.b64encode(data)))
        else:
            self.wire.writer.write(frame(2, b"\x00" + data))
        await self.wire.writer.drain()

    async def end(self) -> None:
        """End the input: by the protocol if it can, otherwise by closing the WebSocket."""
        self.wire.writer.write(frame(2, b"\xff\x00") if self._has_close else frame(8, b"\x03\xe8"))
        await self.wire.writer.drain()

    async def receive(self) -> dict[int, bytes]:
        """Channel -> all that comes on it until the WebSocket is closed."""
        got: dict[int, bytes] = {}
        while True:
            first, length = await self.wire.reader.readexactly(2)
            if length == 126:
                (length,) = struct.unpack(">H", await self.wire.reader.readexactly(2))
            elif length == 127:
                (length,) = struct.unpack(">Q", await self.wire.reader.readexactly(8))
            content = await self.wire.reader.readexactly(length)
            if first & 0xF == 8:
                return got
            channel = content[0] - ord("0") if self._is_base64 else content[0]
            data = base64.b64decode(content[1:]) if self._is_base64 else content[1:]
            got[channel] = got.get(channel, b"") + data


class SpdyClient:
    """Channels over SPDY."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._writer = ClientWriter()
        self._reader = spdy.Reader()
        self._streams: dict[int, int] = {}

    @classmethod
    async def open(cls, address: tuple[str, int], path: str, version: str) -> SpdyClient:
        headers = {"Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": version, "Content-Length": "0"}
        client = cls(await Wire.open(address, "POST", path, headers))
        for number, kind in enumerate(("error", "stdin", "stdout", "stderr")):
            client._streams[2 * number + 1] = _CHANNELS[kind]
            client.wire.writer.write(client._writer.open_stream(2 * number + 1, {"streamtype": kind}))
        # Clients wait for the replies. A client that left before would be answered with a reset, and lose what it sent.
        client.wire.writer.write(spdy.ping_frame(1))
        while spdy.Ping(1) not in client._reader.feed_untrusted(await client.wire.reader.read(65536)):
            pass
        return client

    async def send(self, data: bytes) -> None:
        for start in range(0, len(data), 32768):
            self.wire.writer.write(spdy.data_frame(3, data[start : start + 32768]))
            await self.wire.writer.drain()

    async def end(self) -> None:
        self.wire.writer.write(spdy.data_frame(3, b"", ends=True))
        await self.wire.writer.drain()

    async def receive(self) -> dict[int, bytes]:
        """Channel -> all that comes on it until all of them have ended."""
        got, open_streams = dict[int, bytes](), {1, 5, 7}
        while open_streams:
            data = await self.wire.reader.read(65536)
            assert data
            for one in self._reader.feed_untrusted(data):
                if isinstance(one, spdy.Data):
                    channel = self._streams[one.stream]
                    got[channel] = got.get(channel, b"") + one.content
                    open_streams -= {one.stream} if one.ends else set()
        return got

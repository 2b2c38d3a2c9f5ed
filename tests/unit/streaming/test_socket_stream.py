"""A connection to a server as a stream of bytes."""

from __future__ import annotations

import asyncio
import socket

from bridgehead.streaming.socket_stream import SocketStream


async def test_a_reader_whose_bytes_never_run_out_lets_others_work():
    one, other = socket.socketpair()
    with other:
        one.setblocking(False)
        stream = SocketStream(one)
        turns = 0

        async def work() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        worker = asyncio.create_task(work())
        for _ in range(10):
            other.send(b"x" * 1000)
            assert await stream.read() == b"x" * 1000
        assert turns >= 9
        worker.cancel()
        stream.close()

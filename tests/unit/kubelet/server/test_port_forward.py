"""Port-forward over SPDY: which streams are taken, and for how long half of a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridgehead.kubelet.runtimes.runtime import RuntimeFailure
from bridgehead.kubelet.server.port_forward import PortForward
from bridgehead.streaming import spdy
from tests.spdy_client import ClientWriter


class Carrier:
    """A client: `frames` are what it was sent, of those that a reader knows."""

    def __init__(self) -> None:
        self.frames: list[Any] = []
        self._sent: asyncio.Queue[bytes] = asyncio.Queue()
        self._reader = spdy.Reader()
        self._changed = asyncio.Event()

    def send(self, data: bytes) -> None:
        self._sent.put_nowait(data)

    async def received(self) -> AsyncIterator[bytes]:
        while data := await self._sent.get():
            yield data

    async def write(self, data: bytes) -> None:
        self.frames += self._reader.feed_untrusted(data)
        self._changed.set()

    async def until(self, frame: Any) -> None:
        async with asyncio.timeout(10):
            while frame not in self.frames:
                self._changed.clear()
                await self._changed.wait()


async def refuse(port: int) -> Any:
    raise RuntimeFailure("refused")


def opened(writer: ClientWriter, stream: int, **headers: str) -> bytes:
    return writer.open_stream(stream, {"port": "80", "requestid": "0", "streamtype": "data"} | headers)


@pytest.mark.parametrize(
    "headers",
    [
        {"port": ""}, {"port": "0"}, {"port": "-1"}, {"port": "65536"}, {"port": "9" * 5000}, {"port": "http"},
        {"streamtype": ""}, {"streamtype": "input"},
    ],
    ids=lambda headers: " ".join(f"{name} {value[:8]}" for name, value in headers.items()),
)  # fmt: skip
async def test_streams_without_a_valid_port_and_type_are_refused(headers: dict[str, str]):
    carrier = Carrier()
    carrier.send(opened(ClientWriter(), 1, **headers))
    carrier.send(b"")
    await PortForward(carrier, "web", refuse).run()
    assert carrier.frames == [spdy.Reset(1)]


async def test_a_connection_whose_second_stream_does_not_come_holds_up_no_other_one():
    carrier, writer = Carrier(), ClientWriter()
    serving = asyncio.create_task(PortForward(carrier, "web", refuse, open_seconds=0.05).run())
    carrier.send(opened(writer, 1))
    for _ in range(20):  # more than may wait
        carrier.send(spdy.data_frame(1, b"x" * 60_000))
    carrier.send(spdy.ping_frame(1))
    await carrier.until(spdy.Ping(1))
    carrier.send(b"")
    await serving


async def test_reset_streams_do_not_count_as_open():
    carrier, writer = Carrier(), ClientWriter()
    for number in range(300):
        carrier.send(opened(writer, 2 * number + 1, requestid=str(number)) + spdy.reset_frame(2 * number + 1))
    carrier.send(b"")
    await PortForward(carrier, "web", refuse).run()
    assert carrier.frames == []

"""SPDY connections presented as WebSockets."""

from __future__ import annotations

import asyncio

import pytest

from bridgehead.apiserver.http.spdy_upgrade import SpdyProtocol
from bridgehead.streaming import spdy


class Wire(asyncio.Transport):
    """The client's end: what is written to it, and whether it is closed."""

    def __init__(self):
        super().__init__()
        self.written = b""
        self.closed = asyncio.Event()
        self.reading = True

    def set_protocol(self, protocol):
        self.protocol = protocol

    def write(self, data):
        self.written += data

    def close(self):
        self.closed.set()

    abort = close

    def is_closing(self):
        return self.closed.is_set()

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def frames(self):
        head, _, rest = self.written.partition(b"\r\n\r\n")
        return head, spdy.Reader().feed_untrusted(rest)


def connect(application, *versions, query=b""):
    wire = Wire()
    headers = [(b"x-stream-protocol-version", version) for version in versions]
    tasks = set()
    protocol = SpdyProtocol(application, {"headers": headers, "path": "/exec", "query_string": query}, wire, tasks)
    return wire, protocol, tasks


async def cat(scope, receive, send):
    """Send the version, then stdin until its end, then a status."""
    assert await receive() == {"type": "websocket.connect"}
    await send({"type": "websocket.accept", "subprotocol": scope["subprotocols"][0]})
    await send({"type": "websocket.send", "bytes": b"\x01" + scope["subprotocols"][0].encode()})
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return
        if message["bytes"] == b"\xff\x00":
            break
        await send({"type": "websocket.send", "bytes": b"\x01" + message["bytes"][1:]})
    await send({"type": "websocket.send", "bytes": b"\x03" + b"{}"})
    await send({"type": "websocket.close", "code": 1000})


async def test_spdy_streams_become_channels():
    wire, protocol, _ = connect(cat, b"v4.channel.k8s.io,v3.channel.k8s.io")
    await asyncio.sleep(0)  # output begins before the client has opened its streams
    writer = spdy.Writer()
    for number, kind in ((1, "error"), (3, "stdin"), (5, "stdout")):
        protocol.data_received(writer.open_stream(number, {"streamtype": kind}))
    protocol.data_received(spdy.data_frame(3, b"hello") + spdy.ping_frame(7))
    protocol.data_received(spdy.data_frame(3, b"", ends=True))
    async with asyncio.timeout(20):
        await wire.closed.wait()
    head, frames = wire.frames()
    assert head.startswith(b"HTTP/1.1 101 Switching Protocols")
    assert b"X-Stream-Protocol-Version: v4.channel.k8s.io" in head
    assert spdy.Ping(7) in frames
    data = [frame for frame in frames if isinstance(frame, spdy.Data)]
    assert data == [
        spdy.Data(5, b"v5.channel.k8s.io"),
        spdy.Data(5, b"hello"),
        spdy.Data(1, b"{}"),
        spdy.Data(1, b"", ends=True),
        spdy.Data(5, b"", ends=True),
    ]


async def test_a_command_may_end_before_all_streams_are_open():
    async def echo(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept", "subprotocol": scope["subprotocols"][0]})
        await send({"type": "websocket.send", "bytes": b"\x01out"})
        await send({"type": "websocket.send", "bytes": b"\x02err"})
        await send({"type": "websocket.close", "code": 1000})

    wire, protocol, _ = connect(echo, b"v4.channel.k8s.io", query=b"stdout=true&stderr=true&command=echo")
    writer = spdy.Writer()
    for number, kind in ((1, "error"), (3, "stdout"), (5, "stderr")):
        for _ in range(3):
            await asyncio.sleep(0)
        assert not wire.closed.is_set()
        protocol.data_received(writer.open_stream(number, {"streamtype": kind}))
    async with asyncio.timeout(20):
        await wire.closed.wait()
    data = [frame for frame in wire.frames()[1] if isinstance(frame, spdy.Data)]
    assert data[:2] == [spdy.Data(3, b"out"), spdy.Data(5, b"err")]
    assert {frame.stream for frame in data[2:] if frame.ends} == {1, 3, 5}


async def test_port_forward_data_is_not_changed():
    seen = []

    async def application(scope, receive, send):
        seen.append(scope["subprotocols"])
        await receive()
        await send({"type": "websocket.accept", "subprotocol": scope["subprotocols"][0]})
        seen.append((await receive())["bytes"])
        await send({"type": "websocket.send", "bytes": b"back"})

    wire, protocol, _ = connect(application, b"portforward.k8s.io")
    protocol.data_received(b"forth")
    async with asyncio.timeout(20):
        await wire.closed.wait()
    assert seen == [["SPDY/3.1+portforward.k8s.io"], b"forth"]
    assert wire.written.endswith(b"\r\n\r\nback")


async def test_a_refused_upgrade_is_an_http_response():
    async def application(scope, receive, send):
        await send({"type": "websocket.http.response.start", "status": 404, "headers": [(b"content-length", b"2")]})
        await send({"type": "websocket.http.response.body", "body": b"no"})

    wire, _, _ = connect(application, b"v4.channel.k8s.io")
    async with asyncio.timeout(20):
        await wire.closed.wait()
    head, _, body = wire.written.partition(b"\r\n\r\n")
    first, date, *others = head.split(b"\r\n")
    assert (first, date[:6]) == (b"HTTP/1.1 404 Not Found", b"Date: ")
    assert (others, body) == ([b"Content-Length: 2", b"Connection: close"], b"no")


async def test_unknown_protocol_versions_are_refused():
    offered = []

    async def application(scope, receive, send):
        offered.append(scope["subprotocols"])
        await send({"type": "websocket.close", "code": 1008})

    wire, _, _ = connect(application, b"channel.k8s.io")
    async with asyncio.timeout(20):
        await wire.closed.wait()
    assert offered == [["unsupported"]]
    assert wire.written.startswith(b"HTTP/1.1 403 Forbidden")


@pytest.mark.parametrize(
    "data", [b"\xff" * 64, b"\x80\x03\x00\x01\x00\x00\x00\x02xx", b"\x80\x02\x00\x01\x00\x00\x00\x00"]
)
async def test_invalid_frames_close_the_connection(data):
    wire, protocol, tasks = connect(cat, b"v4.channel.k8s.io")
    await asyncio.sleep(0)
    protocol.data_received(data)
    assert wire.is_closing()
    protocol.connection_lost(None)
    await asyncio.gather(*tasks)


async def test_a_client_that_sends_too_fast_is_throttled():
    release = asyncio.Event()

    async def application(scope, receive, send):
        await release.wait()
        while (await receive())["type"] != "websocket.disconnect":
            continue

    wire, protocol, tasks = connect(application, b"portforward.k8s.io")
    for _ in range(100):
        protocol.data_received(b"x")
    assert not wire.reading
    release.set()
    protocol.connection_lost(None)
    await asyncio.gather(*tasks)
    assert wire.reading

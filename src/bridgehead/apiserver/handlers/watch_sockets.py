"""Watches over WebSockets: one message for each event.

Source: apiserver/pkg/endpoints/handlers/watch.go (HandleWS).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping

from bridgehead.apiserver.http.request import Receive, Send, Stream

_NORMAL_CLOSURE = 1000  # RFC 6455, 7.4.1


def json_only(headers: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return a handshake's headers without those that ask for a form that is no text."""
    accept = headers.get(b"accept", b"")
    return {
        name: value for name, value in headers.items() if name != b"accept" or accept.startswith(b"application/json")
    }


async def send_watch(stream: Stream, receive: Receive, send: Send) -> None:
    """Accept a WebSocket and send a watch's events until the watch ends or the client leaves."""
    events = messages(stream)

    async def pump() -> None:
        async for event in events:
            await send({"type": "websocket.send", "text": event.decode()})
        await send({"type": "websocket.close", "code": _NORMAL_CLOSURE})

    try:
        await receive()  # the handshake
        await send({"type": "websocket.accept"})
        pumping = asyncio.create_task(pump())
        leaving = asyncio.create_task(_until_left(receive))
        try:
            await asyncio.wait((pumping, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            pumping.cancel()
            leaving.cancel()
            await asyncio.gather(pumping, leaving, return_exceptions=True)
    finally:
        await events.aclose()
        await stream.aclose()


async def messages(stream: Stream) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a stream, each of which is an event. A piece may have many, or a part of one."""
    begun: list[bytes] = []
    async for piece in stream:
        first, newline, rest = piece.partition(b"\n")
        begun.append(first)
        if not newline:
            continue
        *whole, tail = rest.split(b"\n")
        for line in (b"".join(begun), *whole):
            if line:
                yield line
        begun = [tail]


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "websocket.disconnect":
        pass

"""A request that upgrades its connection, passed on to another server with all bytes that follow.

Bytes that one side has sent reach the other, also when the sender leaves or ends only its direction. Source: Kubernetes
apimachinery `pkg/util/proxy/upgradeaware.go`, which ends both directions with the first one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

import httptools

from bridgehead.streaming.socket_stream import SocketStream

from .request import Disconnected, Request
from .tunnel import Tunnel

_MAX_HEAD_BYTES = 64 * 1024
_MAX_REFUSAL_BYTES = 1024 * 1024
_REFUSAL_SECONDS = 10.0
_END_OF_HEAD = b"\r\n\r\n"
_INTERIM = (b"HTTP/1.1 100", b"HTTP/1.1 102", b"HTTP/1.1 103")
# Time for the client to end its side, after the target's end.
_LINGER_SECONDS = 10.0


class MalformedAnswer(Exception):
    """The target answers with something else than HTTP."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A target's answer that is no upgrade. Names of headers are in lower case."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


def request_head(method: str, path: str, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the head of a request. `path` is escaped."""
    lines = [f"{method} {path} HTTP/1.1".encode(), *(name + b": " + value for name, value in headers)]
    return b"\r\n".join(lines) + _END_OF_HEAD


async def forward_upgrade(
    request: Request, client: Tunnel, target: SocketStream, head: bytes, *, patience: float | None
) -> Refusal | None:
    """Send `head` to the target. Copy until both sides have ended if the target upgrades; otherwise return its answer.

    `patience`: seconds for the target to end its side after the client has left; None: as long as it takes the target
    to process what the client has sent. Raises OSError, `MalformedAnswer`, and `Disconnected` if the client leaves
    before the target answers.
    """
    await target.write(head)
    answer, rest = await _await_head(request, target)
    status = _status(answer)
    if status != 101:
        return await _read_refusal(status, answer, rest, target)
    with contextlib.suppress(ConnectionError):
        await client.start(answer + rest)
    await _copy_in_both_directions(client, target, patience)
    return None


async def _await_head(request: Request, target: SocketStream) -> tuple[bytes, bytes]:
    """Return the head of the target's response, and bytes after it. Raises `Disconnected` if the client leaves."""
    reading = asyncio.ensure_future(_read_head(target))
    leaving = asyncio.ensure_future(_leave(request))
    try:
        await asyncio.wait((reading, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            raise Disconnected
        return reading.result()
    finally:
        leaving.cancel()
        reading.cancel()
        await asyncio.gather(reading, leaving, return_exceptions=True)


async def _leave(request: Request) -> None:
    """Wait until the client has left. An upgrade has no body (see `peer_protocol`)."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _read_head(target: SocketStream) -> tuple[bytes, bytes]:
    received = b""
    while True:
        head, end, rest = received.partition(_END_OF_HEAD)
        if end and not head.startswith(_INTERIM):
            return head + end, rest
        if end:
            received = rest
            continue
        data = await target.read()
        if not data:
            raise MalformedAnswer("unexpected EOF")
        received += data
        if len(received) > _MAX_HEAD_BYTES and _END_OF_HEAD not in received:
            raise MalformedAnswer("malformed HTTP response")


def _status(head: bytes) -> int:
    parts = head.split(b"\r\n", 1)[0].split(b" ")
    if not parts[0].startswith(b"HTTP/1.") or len(parts) < 2 or not parts[1].isdigit():
        raise MalformedAnswer("malformed HTTP response")
    return int(parts[1])


class _Answer:
    """The callbacks of a parser of one response."""

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.is_complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.is_complete = True


async def _read_refusal(status: int, head: bytes, rest: bytes, target: SocketStream) -> Refusal:
    answer = _Answer()
    parser = httptools.HttpResponseParser(answer)
    with contextlib.suppress(TimeoutError, httptools.HttpParserError):
        async with asyncio.timeout(_REFUSAL_SECONDS):
            parser.feed_data(head + rest)
            while not answer.is_complete and len(answer.body) < _MAX_REFUSAL_BYTES:
                if not (data := await target.read()):
                    break
                parser.feed_data(data)
    return Refusal(status, answer.headers, answer.body)


async def _copy_in_both_directions(client: Tunnel, target: SocketStream, patience: float | None) -> None:
    """Copy bytes until both sides have ended, or one of them and the other's time is over."""
    upward = asyncio.ensure_future(_to_target(client, target))
    downward = asyncio.ensure_future(_to_client(client, target))
    leaving = asyncio.ensure_future(client.wait_lost())
    try:
        await asyncio.wait((upward, downward), return_when=asyncio.FIRST_COMPLETED)
        if downward.done():
            await asyncio.wait((upward,), timeout=_LINGER_SECONDS)
        else:
            # A client that has ended only its direction still reads.
            await asyncio.wait((downward, leaving), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait((downward,), timeout=patience)
    finally:
        for task in (upward, downward, leaving):
            task.cancel()
        await asyncio.gather(upward, downward, leaving, return_exceptions=True)


async def _to_target(client: Tunnel, target: SocketStream) -> None:
    with contextlib.suppress(OSError):
        while data := await client.read():
            await target.write(data)
    target.end()


async def _to_client(client: Tunnel, target: SocketStream) -> None:
    """Copy to the client. Bytes for a client that has left are dropped: the target may still read what it sent."""
    while data := await target.read():
        with contextlib.suppress(ConnectionError):
            await client.write(data)
    client.end()

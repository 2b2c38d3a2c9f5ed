"""Sending of responses: their headers, their warnings, and streams for clients that may leave or stop reading.

Source: Kubernetes apiserver/pkg/endpoints/filters (cachecontrol.go, warning.go).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from bridgehead.apiserver.errors import ApiStatus

from .request import Receive, Response, Scope, Send, Stream, StreamBroken
from .unsent import ClientTooSlow, Connection, UnsentBudget

# Limits in characters: of one warning once all together are too long, and of all together.
_MAX_WARNING, _MAX_WARNINGS = 256, 4096

_CACHE_CONTROL = (b"cache-control", b"no-cache, private")
_POLICY_VIOLATION = 1008  # RFC 6455, 7.4.1
_MAX_CLOSE_REASON_CHARACTERS = 120  # a control frame has at most 125 bytes (RFC 6455, 5.5)


class Sender:
    def __init__(self, unsent: UnsentBudget) -> None:
        self._unsent = unsent
        self._turns = unsent.turns

    async def send(
        self,
        response: Response,
        more_headers: Sequence[tuple[bytes, bytes]],
        warnings: Sequence[str],
        receive: Receive,
        send: Send,
        scope: Scope,
    ) -> None:
        """Send a response with further headers and with warnings for the client."""
        headers = [*more_headers, *response.headers]
        if all(name != b"cache-control" for name, _ in response.headers):
            headers.insert(0, _CACHE_CONTROL)
        if response.content_type:
            headers.insert(0, (b"content-type", response.content_type.encode("latin-1", "replace")))
        if warnings:
            headers += [(b"warning", _warning(text)) for text in limit_warnings(warnings)]
        if response.stream is None:
            headers.append((b"content-length", b"%d" % len(response.body)))
            await send({"type": "http.response.start", "status": response.status, "headers": headers})
            await send({"type": "http.response.body", "body": response.body})
            return
        try:
            await send({"type": "http.response.start", "status": response.status, "headers": headers})
            await self.send_stream(response.stream, receive, send, scope, drops_slow=response.drops_slow)
        finally:
            await response.stream.aclose()

    async def send_stream(
        self, stream: Stream, receive: Receive, send: Send, scope: Scope, *, drops_slow: bool
    ) -> None:
        """Send the pieces until the stream ends, the client leaves, or the client reads nothing for too long."""
        connection: Connection = scope["state"]["connection"]
        pieces = aiter(stream)
        pump = asyncio.current_task()
        left = False

        async def on_disconnect() -> None:
            nonlocal left
            while (await receive())["type"] != "http.disconnect":
                pass
            left = True
            if pump is not None:
                pump.cancel()

        watcher = asyncio.create_task(on_disconnect())
        try:
            # Sends the headers at once: they show a client that its watch has begun.
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            if drops_slow:
                connection.limit_buffer()
            has_turn = False
            async for piece in pieces:
                # Before the turn: so a stream whose client does not read waits for it with the bytes that it holds.
                if drops_slow and connection.is_full:
                    await self._unsent.wait(connection, stream.held_bytes + len(piece), scope["path"])
                if not piece or not has_turn:
                    await self._turns.take()
                has_turn = not piece
                if not piece:
                    continue
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except asyncio.CancelledError:
            if not left or pump is None or pump.uncancel():
                raise
        except (ClientTooSlow, StreamBroken):
            pass  # the connection is closed
        finally:
            watcher.cancel()
            await pieces.aclose()


def limit_warnings(texts: Iterable[str]) -> list[str]:
    """Return the warnings that fit into an answer's headers: each once, truncated when all together are too long."""
    once = list(dict.fromkeys(texts))
    if sum(map(len, once)) <= _MAX_WARNINGS:
        return once
    shown: list[str] = []
    room = _MAX_WARNINGS
    for text in once:
        if room <= 0:
            break
        shown.append(text[:_MAX_WARNING])
        room -= len(shown[-1])
    return shown


def _warning(text: str) -> bytes:
    """Render a Warning header's value (RFC 7234, 5.5); code 299 is "miscellaneous persistent"."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    printable = "".join(c if c.isprintable() else " " for c in quoted)
    return f'299 - "{printable}"'.encode()


async def deny_socket(scope: Scope, send: Send, status: ApiStatus) -> None:
    """Answer a WebSocket's handshake with a `Status` instead of accepting it."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        reason = status.message[:_MAX_CLOSE_REASON_CHARACTERS]
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": reason})
        return
    body = msgspec.json.encode(status.to_object())
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "websocket.http.response.start", "status": status.code, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})

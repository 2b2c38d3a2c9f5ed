"""Refusal of a WebSocket's handshake."""

from __future__ import annotations

import msgspec

from bridgehead.apiserver.errors import ApiStatus

from .request import Scope, Send

_POLICY_VIOLATION = 1008  # RFC 6455, 7.4.1
_MAX_CLOSE_REASON_CHARACTERS = 120  # a control frame has at most 125 bytes (RFC 6455, 5.5)


async def deny(scope: Scope, send: Send, status: ApiStatus) -> None:
    """Answer a WebSocket's handshake with a `Status` instead of accepting it."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        reason = status.message[:_MAX_CLOSE_REASON_CHARACTERS]
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION, "reason": reason})
        return
    body = msgspec.json.encode(status.to_object())
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "websocket.http.response.start", "status": status.code, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})

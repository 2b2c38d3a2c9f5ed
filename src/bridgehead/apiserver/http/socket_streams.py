"""Streams over WebSockets: a watch, with an event in each message, and the log of a container.

Browsers use them, whose scripts cannot read a response without an end in all cases.
Source: apiserver/pkg/endpoints/handlers/watch.go (HandleWS), apimachinery/pkg/util/httpstream/wsstream (Reader).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

from bridgehead.apiserver.errors import bad_request

from .request import Receive, Response, Scope, Send
from .request_info import RequestInfo
from .sending import Sender

_TOKEN = "base64url.bearer.authorization.k8s.io."
_BINARY, _BASE64 = "binary.k8s.io", "base64.binary.k8s.io"
_NORMAL_CLOSURE = 1000  # RFC 6455, 7.4.1
_JSON = "application/json"

Frame = Callable[[bytes], Iterable[dict[str, Any]]]


def is_stream(info: RequestInfo) -> bool:
    """Whether the answer to a GET is a stream that a WebSocket can carry."""
    return info.verb == "watch" or (info.resource == "pods" and not info.group and info.subresource == "log")


def choose_protocol(info: RequestInfo, offered: Iterable[str]) -> str | None:
    """Return the subprotocol of a stream, None for a client that offers none. Raises a 400 if none is supported."""
    names = [name for name in offered if not name.startswith(_TOKEN)]
    if info.verb == "watch":
        return names[0] if names else None
    supported = [name for name in names if name in (_BINARY, _BASE64)]
    if names and not supported:
        raise bad_request(f"unable to upgrade: the subprotocols offered here are {_BINARY}, {_BASE64}")
    return supported[0] if supported else None


async def send_over_socket(
    sender: Sender, response: Response, protocol: str | None, receive: Receive, send: Send, scope: Scope
) -> None:
    """Accept the WebSocket and send the response's stream in messages; close it at the stream's end."""
    frame = _frames_of(response, protocol)

    async def receive_disconnect() -> MutableMapping[str, Any]:
        while (await receive())["type"] != "websocket.disconnect":
            pass
        return {"type": "http.disconnect"}

    async def send_frames(message: MutableMapping[str, Any]) -> None:
        if message["body"]:
            for one in frame(message["body"]):
                await send({"type": "websocket.send", **one})
        if not message.get("more_body"):
            await send({"type": "websocket.close", "code": _NORMAL_CLOSURE})

    stream = response.stream
    try:
        await receive()  # websocket.connect
        await send({"type": "websocket.accept", "subprotocol": protocol})
        if stream is None:
            await send_frames({"body": response.body})
        else:
            await sender.send_stream(stream, receive_disconnect, send_frames, scope, drops_slow=response.drops_slow)
    finally:
        if stream is not None:
            await stream.aclose()


def _frames_of(response: Response, protocol: str | None) -> Frame:
    if response.content_type == _JSON:
        return lambda body: ({"text": line.decode()} for line in body.splitlines())
    if protocol == _BASE64:
        return lambda body: ({"text": base64.b64encode(body).decode()},)
    return lambda body: ({"bytes": body},)

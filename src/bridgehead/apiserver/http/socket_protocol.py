"""The WebSockets of watches and logs, which accept any names of subprotocols (exec is a `tunnel`).

A name may be no token (RFC 6455, 4.1), such as `SPDY/3.1+portforward.k8s.io`; the websockets library refuses
such a handshake before the application gets it. `server` uses this class instead of uvicorn's.

The library parses the request again, with a limit of 8 KiB for a line, beyond which it would never answer;
`peer_protocol` has limited the request to the size that Go allows.

Answers have Go's reason phrases and names of headers, as all others of the server.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets import http11
from websockets.datastructures import Headers
from websockets.http11 import Response
from websockets.typing import Subprotocol

from bridgehead.go_http import canonical_headers, reason_phrase

from .peer_protocol import MAX_HEADER_BYTES

http11.MAX_LINE_LENGTH = MAX_HEADER_BYTES


class AnySubprotocol(WebSocketsSansIOProtocol):
    """A WebSocket whose application chooses the subprotocol, as ASGI specifies."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn.process_subprotocol = _choose_none  # type: ignore[method-assign]
        self._send_response = self.conn.send_response
        self.conn.send_response = self._send_as_go  # type: ignore[method-assign]

    def _send_as_go(self, response: Response) -> None:
        response.reason_phrase = reason_phrase(response.status_code)
        # The library's headers of an accepted handshake (Sec-WebSocket-Accept) are as libraries in Go write them.
        if response.status_code != 101:
            headers = [(name.encode(), value.encode()) for name, value in response.headers.raw_items()]
            response.headers = Headers((name.decode(), value.decode()) for name, value in canonical_headers(headers))
        self._send_response(response)


def _choose_none(headers: Headers) -> Subprotocol | None:
    return None

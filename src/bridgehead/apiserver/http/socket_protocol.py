"""The server's end of a WebSocket, which takes the subprotocols that Kubernetes' clients name.

Used by the server in place of uvicorn's. kubectl asks for `SPDY/3.1+portforward.k8s.io`; a slash is no part of a token
(RFC 6455, 4.1), so the websockets library refuses the handshake before the application has seen it.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.typing import Subprotocol


class AnySubprotocol(WebSocketsSansIOProtocol):
    """Leaves the choice of a subprotocol to the application, as ASGI has it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn.process_subprotocol = _choose_none  # type: ignore[method-assign]


def _choose_none(headers: Headers) -> Subprotocol | None:
    return None

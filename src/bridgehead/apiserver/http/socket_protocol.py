"""The server's WebSockets, which accept the subprotocol names of Kubernetes' clients.

kubectl asks for `SPDY/3.1+portforward.k8s.io`. A slash may not be part of a token (RFC 6455, 4.1), so the websockets
library refuses the handshake before the application gets it. `server` uses this class instead of uvicorn's.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.typing import Subprotocol


class AnySubprotocol(WebSocketsSansIOProtocol):
    """A WebSocket whose application chooses the subprotocol, as ASGI specifies."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn.process_subprotocol = _choose_none  # type: ignore[method-assign]


def _choose_none(headers: Headers) -> Subprotocol | None:
    return None

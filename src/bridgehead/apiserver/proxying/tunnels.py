"""A request that upgrades its connection: WebSocket, SPDY or any other protocol, passed on as raw bytes."""

from __future__ import annotations

import asyncio

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.http.request import Request, Response
from bridgehead.apiserver.http.tunnel import tunnel_of
from bridgehead.apiserver.http.upgrade_forwarding import MalformedAnswer, Refusal, forward_upgrade, request_head
from bridgehead.streaming.socket_stream import SocketStream

from .connections import CONNECT_SECONDS, describe
from .headers import is_valid, response_headers, upgrade_headers
from .routes import Route, client_address

# Time for a target to end its side after the client has left.
_PATIENCE_SECONDS = 10.0


async def connect(request: Request, route: Route) -> Response:
    """Pass an upgrade on; return when the upgraded connection has ended, or the target's refusal.

    Raises a 500 if the target cannot be reached or answers neither with an upgrade nor with an error, `Disconnected`
    if the client leaves before the target answers.
    """
    client = tunnel_of(request.scope)
    if client is None:
        raise _failed("request connection cannot be hijacked")
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            target = await SocketStream.connect(
                route.target.host,
                route.target.port,
                route.tls if route.target.scheme == "https" else None,
                route.server_name,
            )
    except (OSError, TimeoutError) as error:
        raise _failed(f"error dialing backend: {describe(error, route.target)}") from error
    try:
        refusal = await forward_upgrade(request, client, target, _head(request, route), patience=_PATIENCE_SECONDS)
    except MalformedAnswer as error:
        raise _failed(str(error)) from error
    except OSError as error:
        raise _failed(describe(error, route.target)) from error
    finally:
        target.close()
    return Response(101, is_long_running=True) if refusal is None else _passed_on(refusal)


def _failed(message: str) -> ApiStatus:
    return ApiStatus(500, "", message)


def _head(request: Request, route: Route) -> bytes:
    headers = route.headers(upgrade_headers(request.scope["headers"], client_address(request)))
    if not is_valid(headers):
        raise _failed("error sending request: net/http: invalid header field value")
    return request_head(request.method, route.path, headers)


def _passed_on(refusal: Refusal) -> Response:
    """Return the target's response that refuses the upgrade."""
    if refusal.status < 400:
        raise _failed(f"invalid upgrade response: status code {refusal.status}")
    content_type = next((value for name, value in refusal.headers if name == b"content-type"), b"").decode("latin-1")
    headers = response_headers(refusal.headers, keeps_length=False)
    return Response(refusal.status, refusal.body, content_type, tuple(headers), is_long_running=True)

"""A request on its way to its target: as a stream, or as a tunnel."""

from __future__ import annotations

from bridgehead.apiserver.http.request import Request, Response
from bridgehead.apiserver.http.tunnel import asks_for_upgrade

from .connections import Connections
from .routes import Route


async def pass_on(request: Request, route: Route, connections: Connections) -> Response:
    """Pass a request on as a stream, or as a tunnel if it asks for an upgrade. Raises `ApiStatus`, `Disconnected`."""
    # These modules import an HTTP client, which takes a third of the server's start, and most servers pass nothing on.
    if asks_for_upgrade(request.scope["headers"]):
        from .tunnels import connect

        return await connect(request, route)
    from .forwarding import forward

    return await forward(request, route, connections.session())

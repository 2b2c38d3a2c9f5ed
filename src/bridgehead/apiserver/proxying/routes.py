"""Targets of proxied requests, and the headers that requests carry there."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from bridgehead.apiserver.http.request import Request

from .headers import Headers
from .targets import Target
from .urls import Links


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Target of a request. `path` is the escaped path with the query; `tls` is used for https.

    `server_name`: the name in the target's certificate, "" for none. `extra_headers` replace those of the request.
    `links`: the rule for links in the response, None to leave them.
    """

    target: Target
    path: str
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    extra_headers: tuple[tuple[bytes, bytes], ...] = ()
    links: Links | None = None

    def headers(self, headers: Headers) -> Headers:
        """Return the request's headers with `extra_headers`."""
        replaced = {name for name, _ in self.extra_headers}
        return [pair for pair in headers if pair[0] not in replaced] + list(self.extra_headers)


def client_address(request: Request) -> str:
    """Return the client's address, "" if the connection has none."""
    client = request.scope.get("client")
    return str(client[0]) if client else ""

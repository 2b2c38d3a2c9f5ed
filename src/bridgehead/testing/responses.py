"""Requests of HTTP over connected sockets, and their responses."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .targets import Url


@dataclass(frozen=True)
class Response:
    """A whole response. Header names in `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        return json.loads(self.body)


def request(
    connected: socket.socket,
    url: Url,
    method: str,
    headers: Mapping[str, str],
    body: bytes | str | None,
    tls: ssl.SSLContext | None,
) -> Response:
    """Send a request and return the response; the socket is closed. Raises OSError and http.client.HTTPException."""
    with connected:
        connection = http.client.HTTPConnection(url.hostname, url.port)
        connection.sock = connected
        if url.is_tls:
            connection.sock = (tls or ssl.create_default_context()).wrap_socket(connected, server_hostname=url.hostname)
        with connection.sock:
            content = body.encode() if isinstance(body, str) else body
            connection.request(method, url.path, content, {"Host": url.host, "Connection": "close", **headers})
            answer = connection.getresponse()
            fields = {name.lower(): value for name, value in answer.getheaders()}
            return Response(answer.status, fields, answer.read())

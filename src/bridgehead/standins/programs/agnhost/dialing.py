"""agnhost's dial: requests to another server, over HTTP, UDP or SCTP, and what it answered."""

from __future__ import annotations

import http.client
import socket
from typing import Final

import msgspec

from bridgehead.standins.programs.http_session import HttpResponse, LateResponse

_TIMEOUT: Final = 5.0  # seconds
_LARGEST_DATAGRAM: Final = 2048  # bytes


def dial(values: dict[str, str]) -> HttpResponse | LateResponse:
    """Answer a request with the parameters host, port, request, protocol and tries."""
    protocol = values.get("protocol", "http").lower()
    tries, port = values.get("tries", "1"), values.get("port", "")
    if not tries.isdigit():
        return _reject(f"tries parameter is invalid. {tries}")
    if not values.get("request"):
        return _reject("request parameter not specified. <nil>")
    if protocol not in ("http", "udp", "sctp"):
        return _reject(f"unsupported protocol. {protocol}")
    if not port.isdigit():
        return _reject(f"host and/or port param are invalid. {port}")
    return LateResponse(lambda: _try_all(protocol, values.get("host", ""), int(port), values["request"], int(tries)))


def _reject(reason: str) -> HttpResponse:
    return HttpResponse(f"{reason}\n".encode(), 400, content_type="text/plain; charset=utf-8")


def _try_all(protocol: str, host: str, port: int, request: str, tries: int) -> HttpResponse:
    responses, errors = [], []
    response = ""
    for _ in range(tries):
        response = ""
        try:
            response = _ask_http(host, port, request) if protocol == "http" else _ask(protocol, host, port, request)
            responses.append(response)
        except (OSError, http.client.HTTPException) as error:
            errors.append(str(error))
    answer = {"responses": responses} if response else {}
    if errors:
        answer["errors"] = errors
    return HttpResponse(msgspec.json.encode(answer), content_type="text/plain; charset=utf-8")


def _ask_http(host: str, port: int, request: str) -> str:
    return get(host, port, f"/{request}")[1]


def get(host: str, port: int, target: str) -> tuple[int, str]:
    """The status and the body of a GET request. Raises OSError, http.client.HTTPException."""
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
    try:
        connection.request("GET", target)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    finally:
        connection.close()


def _ask(protocol: str, host: str, port: int, request: str) -> str:
    kind, number = (socket.SOCK_DGRAM, 0) if protocol == "udp" else (socket.SOCK_STREAM, socket.IPPROTO_SCTP)
    # The port is looked up by its name for UDP: the resolver does not know those of SCTP everywhere.
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, number) as asking:
        asking.settimeout(_TIMEOUT)
        asking.connect(address)
        asking.send(request.encode())
        answer = asking.recv(_LARGEST_DATAGRAM)
        if not answer:
            raise ConnectionError(f"reading from {protocol} connection failed. err:'EOF'")
        return answer.decode("utf-8", "replace")

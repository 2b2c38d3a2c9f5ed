"""agnhost's small servers: porter, serve-hostname, liveness, nettest and test-webserver."""

from __future__ import annotations

import functools
import html
import os
import time
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import parse_qs, quote

import msgspec

from bridgehead.standins.programs.announcing import announce
from bridgehead.standins.programs.http_session import (
    Handler,
    HttpRequest,
    HttpResponse,
    LateResponse,
)
from bridgehead.standins.programs.sites import file_site
from bridgehead.standins.programs.stream_server import Farewell, Peer, StreamServer, fail
from bridgehead.standins.standin import Launch, Setup

from .flags import CommandLine, describe
from .responses import json, not_found, sessions, text
from .tls_session import LOCALHOST_CERTIFICATE, load_server_context, secure

# porter's variables: the prefix before a port's number, and the protocol on the port.
_SERVED: Final = {
    "SERVE_PORT_": "http",
    "SERVE_TCP_PORT_": "http",
    "SERVE_TLS_PORT_": "https",
    "SERVE_UDP_PORT_": "udp",
}
# serve-hostname's flags and what they are by default.
_HOSTNAME_PROTOCOLS: Final = (("http", "true"), ("tcp", "false"), ("udp", "false"))
_HEALTHY_SECONDS: Final = 10.0


def serve_ports(launch: Launch, line: CommandLine) -> int:
    """porter: serve the values of variables on the ports in their names."""
    server = StreamServer()
    as_json = line.flags.get("json-response") == "true"
    ports = []
    for protocol, port, value in find_served(launch.environment):
        if protocol == "udp":
            server.listen_datagrams(port, functools.partial(_answer_datagram, value.encode()))
        else:
            certificate = launch.environment.get("CERT_FILE", LOCALHOST_CERTIFICATE)
            key = launch.environment.get("KEY_FILE", "")
            context = load_server_context(certificate, key) if protocol == "https" else None
            site = value_site(value, as_json=as_json)
            server.listen(port, secure(context, sessions(site)))
        ports.append(f"{port}/{'UDP' if protocol == 'udp' else 'TCP'}")
    used = tuple(
        name for name in launch.setup.variables if name.startswith("SERVE_") or name in ("CERT_FILE", "KEY_FILE")
    )
    announce(_without_variables(launch.setup, used), describe(line, ("json-response",), tuple(ports)))
    return server.serve(launch.started)


def find_served(environment: Mapping[str, str]) -> list[tuple[str, int, str]]:
    """The protocols, ports and values in porter's variables."""
    return [
        (protocol, int(name.removeprefix(prefix)), value)
        for name, value in environment.items()
        for prefix, protocol in _SERVED.items()
        if name.startswith(prefix) and name.removeprefix(prefix).isdigit()
    ]


def value_site(value: str, *, as_json: bool) -> Handler:
    """A handler that answers everything with a value, as JSON with the request's method beside it."""

    def answer(request: HttpRequest) -> HttpResponse:
        if as_json:
            body = msgspec.json.encode({"Method": request.method, "Body": value})
            return HttpResponse(body, content_type="application/json")
        # Go finds the type in the content, and the API server's proxy rewrites links in HTML only.
        kind = "text/html" if value.lstrip().startswith("<") else "text/plain"
        return HttpResponse(value.encode(), content_type=f"{kind}; charset=utf-8")

    return answer


def _answer_datagram(answer: bytes, data: bytes, peer: Peer) -> bytes:
    return answer


def _without_variables(setup: Setup, used: tuple[str, ...]) -> Setup:
    return msgspec.structs.replace(setup, variables=tuple(name for name in setup.variables if name not in used))


def serve_hostname(launch: Launch, line: CommandLine) -> int:
    """Serve the host's name over HTTP, or on plain TCP connections, over UDP, or both."""
    port, name = line.port("port", 9376), launch.hostname.encode()
    is_http, is_tcp, is_udp = (line.flags.get(flag, default) == "true" for flag, default in _HOSTNAME_PROTOCOLS)
    if is_http and (is_tcp or is_udp):
        return fail("Can't server TCP/UDP mode and HTTP mode at the same time")
    server, ports = StreamServer(), []
    if is_http or is_tcp:
        response = text(launch.hostname)
        server.listen(port, sessions(lambda request: response) if is_http else lambda peer: Farewell(name))
        ports.append(f"{port}/TCP")
    if is_udp:
        server.listen_datagrams(port, functools.partial(_answer_datagram, name))
        ports.append(f"{port}/UDP")
    announce(launch.setup, describe(line, ("port", "udp", "tcp", "http"), tuple(ports)))
    return server.serve(launch.started)


def serve_liveness(launch: Launch, line: CommandLine) -> int:
    site = liveness_site(time.monotonic)
    return _serve_http(launch, line, site, 8080, ())


def liveness_site(clock: Callable[[], float]) -> Handler:
    """A handler whose /healthz fails after ten seconds."""
    started = clock()

    def answer(request: HttpRequest) -> HttpResponse:
        age = clock() - started
        if request.path == "/started":
            return text(f"{age}s")
        if request.path == "/healthz":
            return text("ok") if age <= _HEALTHY_SECONDS else text(f"error: {age}", 500)
        if request.path == "/redirect":
            location = parse_qs(request.target.partition("?")[2]).get("loc", ["/"])[0]
            body = f'<a href="{html.escape(location)}">Found</a>.\n\n'.encode()
            return HttpResponse(body, 302, content_type="text/html; charset=utf-8", headers=(("Location", location),))
        return not_found()

    return answer


def serve_reports(launch: Launch, line: CommandLine) -> int:
    """nettest, as the server that others report to; no peers are contacted."""
    return _serve_http(launch, line, report_site(launch.hostname), line.port("port", 8080), ("port",))


def report_site(hostname: str) -> Handler:
    """A handler that counts the sources of reports."""
    received: dict[str, int] = {}

    def answer(request: HttpRequest) -> HttpResponse:
        if request.path == "/write":
            try:
                source = msgspec.json.decode(request.body, type=_Report).Source
            except msgspec.DecodeError as error:
                return text(f"Bad request: {error}\n", 400)
            received[source] = received.get(source, 0) + 1
            return json({"Hostname": hostname})
        if request.path == "/read":
            return json({"Hostname": hostname, "Sent": {}, "Received": received, "Errors": None, "Log": None})
        return not_found()

    return answer


class _Report(msgspec.Struct):
    Source: str


def serve_files(launch: Launch, line: CommandLine) -> int:
    """test-webserver: the container's files."""
    return _serve_http(launch, line, listing_site("/"), line.port("port", 80), ("port",))


def listing_site(root: str) -> Handler:
    """A handler that serves the files below `root`, and lists directories without an index.html."""
    files = file_site(root)

    def answer(request: HttpRequest) -> HttpResponse | LateResponse:
        path = os.path.normpath(f"{root}/{request.path}")
        if not request.path.endswith("/") or not os.path.isdir(path) or os.path.exists(f"{path}/index.html"):
            return files(request)
        names = sorted(entry.name + "/" * entry.is_dir() for entry in os.scandir(path))
        lines = [f'<a href="{quote(name)}">{html.escape(name)}</a>' for name in names]
        return HttpResponse(
            "\n".join(["<pre>", *lines, "</pre>", ""]).encode(), content_type="text/html; charset=utf-8"
        )

    return answer


def _serve_http(launch: Launch, line: CommandLine, site: Handler, port: int, used: tuple[str, ...]) -> int:
    server = StreamServer()
    server.listen(port, sessions(site))
    announce(launch.setup, describe(line, used, (f"{port}/TCP",)))
    return server.serve(launch.started)

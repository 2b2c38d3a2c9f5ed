"""The web sites of the stand-ins: pod-test, myapp, nginx, httpd and node-hello."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import sys
import time
from functools import lru_cache

import msgspec

from bridgehead.standins.image_files import HTTPD_ROOT, NGINX_ROOT
from bridgehead.standins.standin import Launch

from .announcing import announce
from .disclosures import Abilities
from .http_session import AccessLog, Handler, HttpRequest, HttpResponse, HttpSession
from .stream_server import OutputBuffer, StreamServer, fail

_TYPES = {
    ".html": "text/html",
    ".htm": "text/html",
    ".css": "text/css",
    ".js": "application/javascript",
    ".json": "application/json",
    ".txt": "text/plain",
    ".xml": "text/xml",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".ico": "image/x-icon",
}


def serve_site(launch: Launch, handler: Handler, port: int, product: str, abilities: Abilities) -> int:
    """Serve on `port` until a signal to end, with an access log in the common log format on standard output."""
    output = OutputBuffer()
    access_log = _common_log(output)
    server = StreamServer(after_round=output.flush)
    try:
        server.listen(port, lambda peer: HttpSession(handler, peer, product, access_log))
    except OSError as error:
        return fail(f"bind() to 0.0.0.0:{port} failed ({error.errno}: {error.strerror})")
    announce(launch.setup, msgspec.structs.replace(abilities, ports=(f"{port}/TCP",)), server.watch)
    return server.serve(launch.started)


def serve_pod_test(launch: Launch) -> int:
    version = launch.tag if launch.tag not in ("", "latest") else "v0.1"
    own_address = lru_cache(maxsize=1)(find_own_address)

    def answer(request: HttpRequest) -> HttpResponse:
        path = request.path
        if path == "/":
            server = own_address() if request.peer.own in ("127.0.0.1", "::1") else request.peer.own
            text = (
                f"kubernetes pod-test {version}!! ClientIP: {request.peer.address}, "
                f"ServerName: {launch.hostname}, ServerIP: {server}!\n"
            )
            return HttpResponse(text.encode())
        if path == "/hostname":
            return HttpResponse(f"ServerName: {launch.hostname}\n".encode())
        return not_found(request)

    role = "a web server that answers with the client's address, its own name and its own address"
    return serve_site(
        launch, answer, 80, "bridgehead-pod-test", Abilities(role=role, ignored_arguments=launch.argv[1:])
    )


def serve_myapp(launch: Launch) -> int:
    version = launch.tag if launch.tag not in ("", "latest") else "v1"
    front = f'Hello MyApp | Version: {version} | <a href="hostname.html">Pod Name</a>\n'.encode()
    name = f"{launch.hostname}\n".encode()

    def answer(request: HttpRequest) -> HttpResponse:
        path = request.path
        if path in ("/", "/index.html"):
            return HttpResponse(front)
        return HttpResponse(name) if path == "/hostname.html" else not_found(request)

    return serve_site(
        launch, answer, 80, "bridgehead-myapp", _nginx_abilities(launch, "the pages / and /hostname.html")
    )


def serve_node_hello(launch: Launch) -> int:
    response = HttpResponse(b"Hello Kubernetes!", content_type="text/plain")
    abilities = Abilities(role="a web server that says Hello Kubernetes!", ignored_arguments=launch.argv[1:])
    return serve_site(launch, lambda request: response, 8080, "bridgehead-node-hello", abilities)


def serve_nautilus(launch: Launch) -> int:
    """The picture's name is that of the image, as kubectl's tests of the Update Demo expect."""
    picture = "kitten.jpg" if "/kitten" in launch.setup.image else "nautilus.jpg"

    def answer(request: HttpRequest) -> HttpResponse:
        if request.path != "/data.json":
            return not_found(request)
        return HttpResponse(f'{{\n  "image": "{picture}"\n}}\n'.encode(), content_type="application/json")

    abilities = Abilities(role="a web server with the page /data.json", ignored_arguments=launch.argv[1:])
    return serve_site(launch, answer, 80, "bridgehead-nautilus", abilities)


def serve_nginx(launch: Launch) -> int:
    if "-v" in launch.argv or "-V" in launch.argv:
        sys.stderr.write(f"nginx version: nginx/{launch.tag or 'latest'} (Bridgehead's stand-in)\n")
        return 0
    if "-t" in launch.argv or "-s" in launch.argv:
        return fail("nginx: Bridgehead's stand-in reads no configuration and takes no signals from -s")
    return serve_site(
        launch,
        file_site(NGINX_ROOT),
        80,
        "bridgehead-nginx",
        _nginx_abilities(launch, f"the files in {NGINX_ROOT}"),
    )


def _nginx_abilities(launch: Launch, content: str) -> Abilities:
    """`daemon off;` is what the program does anyway."""
    ignored = tuple(word for word in launch.argv[1:] if word not in ("-g", "daemon off;"))
    return Abilities(
        role=f"a web server for {content}",
        configuration=("/etc/nginx",),
        ignored_arguments=ignored,
    )


def serve_httpd(launch: Launch) -> int:
    abilities = Abilities(
        role=f"a web server for the files in {HTTPD_ROOT}",
        configuration=("/usr/local/apache2/conf",),
        ignored_arguments=launch.argv[1:],
    )
    return serve_site(launch, file_site(HTTPD_ROOT), 80, "bridgehead-httpd", abilities)


def not_found(request: HttpRequest) -> HttpResponse:
    del request
    return _error(404, "Not Found")


def _error(status: int, text: str, *headers: tuple[str, str]) -> HttpResponse:
    page = f"<html>\n<head><title>{status} {text}</title></head>\n<body><h1>{status} {text}</h1></body>\n</html>\n"
    return HttpResponse(page.encode(), status, headers=headers)


def file_site(root: str) -> Handler:
    """A handler that serves the files below `root`, read for each request because volumes change."""

    def answer(request: HttpRequest) -> HttpResponse:
        if request.method not in ("GET", "HEAD"):
            return _error(405, "Not Allowed", ("Allow", "GET, HEAD"))
        # Normalized as text, so that ".." does not lead out of the root.
        path = os.path.normpath("/" + request.path)
        file = root + (path if path.startswith("/") else "/")
        try:
            if os.path.isdir(file):
                if not request.path.endswith("/"):
                    return _error(301, "Moved Permanently", ("Location", request.path + "/"))
                file = os.path.join(file, "index.html")
                if not os.path.exists(file):
                    return _error(403, "Forbidden")
            with open(file, "rb") as opened:
                if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                    return _error(403, "Forbidden")
                content = opened.read()
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return not_found(request)
        except OSError:
            return _error(403, "Forbidden")
        kind = _TYPES.get(os.path.splitext(file)[1].lower(), "application/octet-stream")
        return HttpResponse(content, content_type=kind)

    return answer


def find_own_address() -> str:
    """The source address of this pod. No packet is sent; the destinations are documentation addresses."""
    for family, destination in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((destination, 9))
            return str(probe.getsockname()[0])
    return "127.0.0.1"


def _common_log(output: OutputBuffer) -> AccessLog:
    def log(request: HttpRequest, status: int, size: int) -> None:
        line = request.head.partition(b"\r\n")[0].decode("latin-1")
        output.add(f'{request.peer.address} - - [{_log_time(int(time.time()))}] "{line}" {status} {size}')

    return log


@lru_cache(maxsize=2)
def _log_time(second: int) -> str:
    return time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(second))

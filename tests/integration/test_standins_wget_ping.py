"""The built-in wget and ping print what BusyBox's print: both ask the same servers in a namespace."""

from __future__ import annotations

import contextlib
import http.server
import re
import threading
from collections.abc import Iterator

import pytest

from .busybox_comparison import Output, compare, needs_same_version, run, without_version
from .namespaced import in_namespace, sh

pytestmark = [pytest.mark.integration, pytest.mark.needs("busybox"), needs_same_version]

WEB = "127.0.0.1:8000"
RETRIEVALS = (
    ("-O", "-", "-q", f"http://{WEB}/ok"),
    ("-q", "-O-", f"{WEB}/ok"),
    ("-qO-", f"http://{WEB}"),
    (f"http://{WEB}",),
    (f"http://{WEB}/x/ok",),
    (f"http://{WEB}/x/",),
    (f"http://{WEB}?a=b",),
    (f"{WEB}/ok?a=b/c",),
    ("-O", "-", f"{WEB}/ok", f"{WEB}/ok"),
    ("-O", "out", f"{WEB}/ok", f"{WEB}/x/ok"),
    (f"{WEB}/ok", f"{WEB}/x/other"),
    (f"{WEB}/ok", f"{WEB}/x/ok"),  # the file exists
    ("-P", "nowhere", f"{WEB}/ok"),
    ("-O", "/nowhere/x", f"{WEB}/ok"),
    ("--spider", f"{WEB}/ok"),
    ("--spider", f"{WEB}/404"),
    ("--spider", "-q", f"{WEB}/404"),
    ("-S", "-O", "-", f"{WEB}/ok"),
    ("-S", "-q", "-O", "-", f"{WEB}/ok"),
    ("-S", f"{WEB}/moved"),
    ("-O-", f"{WEB}/elsewhere"),
    ("-q", f"{WEB}/loop"),
    (f"{WEB}/404",),
    ("-q", f"{WEB}/404"),
    ("-O", "-", f"{WEB}/chunks"),
    ("-O", "-", f"{WEB}/close"),
    ("-O", "-", f"{WEB}/short"),
    ("-O", "-", f"{WEB}/no-field"),
    ("-O", "-", f"{WEB}/nothing"),
    ("-O", "-", f"{WEB}/encoded"),
    ("-O", "-", f"{WEB}/bad-chunk"),
    ("-O", "-", f"{WEB}/bad-length"),
    ("-O", "-", f"{WEB}/control"),
    (f"{WEB}/large",),
    ("-qO-", f"{WEB}/request"),
    ("-qO-", "--header", "X-A: b", "--header=Host: h", "-U", "agent", f"{WEB}/request"),
    ("-qO-", "--post-data", "a=b", f"{WEB}/request"),
    ("-qO-", "--post-data=a", "--header", "Content-Type: x", f"{WEB}/request"),
    ("-qO-", "--user-agent=a", "--no-check-certificate", "-t", "3", "-nv", f"{WEB}/request"),
    ("-qO-", f"user:pa%20ss@{WEB}/request"),
    ("-o", "log", f"{WEB}/ok"),
    ("http://127.0.0.1:81/",),
    ("http://[::1]:81/",),
    ("http://nosuch/",),
    ("http://10.9.9.9/",),
    ("gopher://x",),
    ("127.0.0.1:99999",),
)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def version_string(self) -> str:
        return "test"

    def date_time_string(self, timestamp: float | None = None) -> str:
        return "today"

    def do_POST(self) -> None:
        self.do_GET(self.rfile.read(int(self.headers["Content-Length"])))

    def do_GET(self, body: bytes = b"") -> None:
        raw = {
            "/moved": b"HTTP/1.1 302 Found\r\nLocation: /x/ok\r\nX-After: 1\r\nContent-Length: 0\r\n\r\n",
            "/elsewhere": b"HTTP/1.1 301 Moved\r\nLocation: http://localhost:8000/ok?a\r\nContent-Length: 0\r\n\r\n",
            "/loop": b"HTTP/1.1 307 Again\r\nLocation: /loop\r\nContent-Length: 0\r\n\r\n",
            "/404": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            "/chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n2;a=b\r\nde\r\n0\r\n\r\n",
            "/close": b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
            "/short": b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort",
            "/no-field": b"HTTP/1.1 200 OK\r\nno field\r\n\r\n",
            "/nothing": b"",
            "/encoded": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "/bad-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            "/bad-length": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
            "/control": b"HTTP/1.1 500 a\tb\x1b[31m\r\n\r\n",
        }.get(self.path)
        if raw is not None:
            self.wfile.write(raw)
            self.close_connection = True
            return
        if self.path == "/request":
            body = f"{self.requestline}\n{self.headers}".encode() + body
        elif self.path == "/large":
            body = b"x" * 300_000
        else:
            body = b"hello\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def web() -> Iterator[None]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def without_earlier_progress(output: Output) -> Output:
    """Only the last line of a progress bar: a slow retrieval has some before it."""
    return output._replace(stderr=re.sub(r"^.* \d{1,2}% \|.*ETA\n", "", output.stderr, flags=re.MULTILINE))


@in_namespace
def test_wget_prints_what_busybox_prints() -> None:
    with web():
        compare("wget", RETRIEVALS, without_earlier_progress)

        def cut_usage(output: Output) -> Output:  # builds of BusyBox differ in it
            return without_version(output._replace(stderr=output.stderr.partition("Usage:")[0]))

        compare("wget", [(), ("-Z", "a"), ("--nosuch", "a"), ("-O",), ("--header",)], cut_usage)


def make_silent_neighbor(own: str, address: str) -> None:
    """An address that answers nothing."""
    sh(f"ip link add d0 type veth peer d1 && ip address add {own} dev d0 && ip link set d0 up && ip link set d1 up")
    sh(f"ip neighbour add {address} lladdr 02:00:00:00:00:02 dev d0")


@in_namespace
def test_a_reader_that_ends_ends_wget_silently() -> None:
    with web():
        compare("wget", [])
        for command in ("busybox wget", "/run/wget"):
            script = f"({command} -qO- {WEB}/large; echo $? >&2) | head -c 3"
            assert run("sh", "-c", script)[:3] == ("xxx", "141\n", 0), command


@in_namespace
def test_wget_has_a_timeout() -> None:
    """Debian 12's BusyBox has none to compare with."""
    make_silent_neighbor("10.0.0.1/24", "10.0.0.2")
    with web():
        compare("wget", [])
    for option in (["-T", "1"], ["-T1"], ["--timeout=1"], ["--timeout", "1"]):
        assert run("/run/wget", "-qO-", *option, "http://10.0.0.2/")[:3] == ("", "wget: download timed out\n", 1)
    assert run("/run/wget", "-T", "x", "a").stderr == "wget: invalid number 'x'\n"


PINGS = (
    ("-c", "2", "-i", "0.1", "10.1.1.1"),
    ("-c1", "localhost"),
    ("-c", "1", "-q", "10.1.1.1"),
    ("-c", "1", "-s", "1", "10.1.1.1"),
    ("-c", "1", "-s", "4", "10.1.1.1"),
    ("-c", "1", "-s", "1400", "-p", "ff", "10.1.1.1"),
    ("10.1.1.1", "-c", "1"),
    ("-c", "1", "::1"),
    ("-6", "-c", "1", "fd00::1"),
    ("-c", "1", "-t", "3", "10.1.1.1"),
    ("-A", "-c", "2", "10.1.1.1"),
    ("-c", "1", "-I", "lo", "10.1.1.1"),
    ("-c", "1", "-I", "10.1.1.1", "127.0.0.1"),
    ("-w", "1", "-i", "0.6", "10.1.1.1"),
    ("-c", "2", "-w", "1", "-i", "1.5", "10.1.1.1"),
    ("-c", "1", "-I", "nosuch", "10.1.1.1"),
    ("-c", "1", "-W", "1", "10.2.2.2"),  # nobody answers
    ("-c", "1", "10.9.9.9"),  # no route
    ("-c", "1", "nosuch"),
    ("-c", "x", "10.1.1.1"),
    ("-c", "1", "-t", "256", "10.1.1.1"),
    (),
    ("a", "b"),
    ("-c",),
    ("-Z",),
)


def without_times(output: Output) -> Output:
    return without_version(output._replace(stdout=re.sub(r"\d+\.\d{3}\b", "N", output.stdout)))


@in_namespace
def test_ping_prints_what_busybox_prints() -> None:
    sh("ip address add 10.1.1.1/32 dev lo && ip address add fd00::1/128 dev lo nodad")
    make_silent_neighbor("10.2.2.1/24", "10.2.2.2")
    compare("ping", PINGS, without_times)

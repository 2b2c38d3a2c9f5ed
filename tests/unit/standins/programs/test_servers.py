"""The protocols of the built-in servers, without sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.standins.programs.http_session import (
    HEAD_LIMIT,
    Handler,
    HttpRequest,
    HttpResponse,
    HttpSession,
    LateResponse,
)
from bridgehead.standins.programs.redis import RedisSession, Store
from bridgehead.standins.programs.sites import file_site
from bridgehead.standins.programs.stream_server import LateAnswer, Peer, plain_address

PEER = Peer("10.0.0.1", 4321, "10.244.1.2")


def echo(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"{request.method} {request.path} {request.peer.address} {len(request.body)}".encode())


def session() -> HttpSession:
    return HttpSession(echo, PEER, "test", None)


def status_and_body(answer: Any) -> tuple[int, bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body


@pytest.mark.parametrize(
    ("request_bytes", "status", "body", "closing"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 200, b"GET / 10.0.0.1 0", False),
        (b"GET /a%20b?q=1 HTTP/1.1\r\n\r\n", 200, b"GET /a b 10.0.0.1 0", False),
        (b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", 200, b"GET / 10.0.0.1 0", True),
        (b"GET / HTTP/1.0\r\n\r\n", 200, b"GET / 10.0.0.1 0", True),
        (b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", 200, b"GET / 10.0.0.1 0", False),
        (b"HEAD / HTTP/1.1\r\n\r\n", 200, b"", False),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 200, b"POST / 10.0.0.1 3", False),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411, b"411 Length Required\n", True),
        (b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400, b"400 Bad Request\n", True),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413, None, True),
        (b"hostName\n", 400, b"400 Bad Request\n", True),  # of netcat, which waits for an answer
        (b"\x16\x03\x01 tls?\r\n\r\n", 400, b"400 Bad Request\n", True),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * HEAD_LIMIT, 431, None, True),
    ],
)
def test_http_requests_are_answered(request_bytes: bytes, status: int, body: bytes | None, closing: bool) -> None:
    made = session()
    answer = status_and_body(made.receive(request_bytes, draining=False))
    assert answer[0] == status
    assert body is None or answer[1] == body
    assert made.closing == closing


@given(st.integers(min_value=1, max_value=60))
def test_http_requests_may_arrive_in_pieces(size: int) -> None:
    data = b"POST /one HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /two HTTP/1.1\r\n\r\n"
    made = session()
    answers = b"".join(made.receive(data[at : at + size], draining=False) for at in range(0, len(data), size))
    assert b"POST /one 10.0.0.1 3HTTP/1.1 200 OK" in answers
    assert answers.endswith(b"GET /two 10.0.0.1 0")
    assert not made.busy


def test_the_last_response_of_a_draining_server_closes_the_connection() -> None:
    made = session()
    answer = made.receive(b"GET / HTTP/1.1\r\n\r\n", draining=True)
    assert b"Connection: close" in answer
    assert made.closing


@given(st.binary(max_size=300))
def test_malformed_http_does_not_stop_the_server(data: bytes) -> None:
    answer = session().receive(data + b"\r\n\r\n", draining=False)
    assert isinstance(answer, bytes)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 ")


def fail_late(request: HttpRequest) -> LateResponse:
    return LateResponse(lambda: fail_at_once(request))


def fail_at_once(request: HttpRequest) -> HttpResponse:
    raise KeyError("uid")


@pytest.mark.parametrize("handler", [fail_at_once, fail_late])
def test_a_request_that_cannot_be_handled_gets_an_answer(handler: Handler, capfd: pytest.CaptureFixture[str]) -> None:
    answer = HttpSession(handler, PEER, "test", None).receive(b"GET /a HTTP/1.1\r\n\r\n", draining=False)
    shown = answer.compute() if isinstance(answer, LateAnswer) else answer
    assert status_and_body(shown) == (500, b"500 Internal Server Error\n")
    assert capfd.readouterr().err == "GET /a: KeyError('uid')\n"


def ask(site: object, target: str, method: str = "GET") -> HttpResponse:
    return site(HttpRequest(method, target, b"", b"", PEER))  # type: ignore[operator]


def test_files_are_served(tmp_path: Path) -> None:
    root = tmp_path / "html"
    (root / "sub").mkdir(parents=True)
    (root / "index.html").write_text("front")
    (root / "a b.txt").write_text("text")
    (tmp_path / "secret").write_text("secret")
    site = file_site(str(root))
    assert ask(site, "/").body == b"front"
    assert ask(site, "/?x=1").body == b"front"
    assert ask(site, "/a%20b.txt") == HttpResponse(b"text", content_type="text/plain")
    assert ask(site, "/sub").status == 301
    assert ask(site, "/sub/").status == 403
    assert ask(site, "/none").status == 404
    assert ask(site, "/index.html/x").status == 404
    assert ask(site, "/%00").status == 404
    assert ask(site, "/", "POST").status == 405
    for escape in ("/../secret", "/%2e%2e/secret", "/sub/../../secret", "//../secret", "../secret"):
        assert ask(site, escape).status == 404
    (root / "index.html").write_text("changed")
    assert ask(site, "/").body == b"changed"


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"PING\r\n", b"+PONG\r\n"),
        (b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n"),
        (b"*2\r\n$4\r\necho\r\n$2\r\nhi\r\n", b"$2\r\nhi\r\n"),
        (b"get a\r\n", b"$-1\r\n"),
        (b"set a 1\r\nincr a\r\nget a\r\ndel a b\r\nget a\r\n", b"+OK\r\n:2\r\n$1\r\n2\r\n:1\r\n$-1\r\n"),
        (b"set a x\r\nincr a\r\n", b"+OK\r\n-ERR value is not an integer or out of range\r\n"),
        (b"set a 1 nx\r\nset a 2 NX\r\nget a\r\n", b"+OK\r\n$-1\r\n$1\r\n1\r\n"),
        (b"set a 1 ex 10\r\nttl a\r\nttl b\r\n", b"+OK\r\n:10\r\n:-2\r\n"),
        (b"mset a 1 b 2\r\nmget a b c\r\ndbsize\r\n", b"+OK\r\n*3\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n:2\r\n"),
        (b"get\r\n", b"-ERR wrong number of arguments for 'get' command\r\n"),
        (b"foo bar\r\n", b"-ERR unknown command 'foo', with args beginning with: 'bar' \r\n"),
        (b"\r\n", b""),
        (b"*1\r\nPING\r\n", b"-ERR Protocol error: expected '$', got 'P'\r\n"),
        (b"*x\r\n", b"-ERR Protocol error: invalid multibulk length\r\n"),
        (b"QUIT\r\nPING\r\n", b"+OK\r\n"),
    ],
)
def test_redis_commands_are_answered(sent: bytes, answer: bytes) -> None:
    assert RedisSession(Store(lambda: 0.0)).receive(sent, draining=False) == answer
    made = RedisSession(Store(lambda: 0.0))
    assert b"".join(made.receive(bytes((byte,)), draining=False) for byte in sent) == answer


def test_redis_keys_expire() -> None:
    now = [0.0]
    store = Store(lambda: now[0])
    made = RedisSession(store)
    assert made.receive(b"set a 1 px 1500\r\nexpire b 3\r\n", draining=False) == b"+OK\r\n:0\r\n"
    now[0] = 1.4
    assert made.receive(b"get a\r\n", draining=False) == b"$1\r\n1\r\n"
    now[0] = 1.5
    assert made.receive(b"get a\r\nkeys *\r\n", draining=False) == b"$-1\r\n*0\r\n"


@given(st.binary(max_size=200))
def test_malformed_redis_input_does_not_stop_the_server(data: bytes) -> None:
    RedisSession(Store(lambda: 0.0)).receive(data, draining=False)


def test_ipv4_mapped_addresses_are_printed_as_ipv4() -> None:
    assert [plain_address(a) for a in ("::ffff:10.0.0.1", "fd00::1", "10.0.0.1")] == ["10.0.0.1", "fd00::1", "10.0.0.1"]

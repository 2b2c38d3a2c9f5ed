from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.forwarding.http_requests import BadRequest, parse_request, refusal


def test_a_request_with_a_whole_url_becomes_one_for_the_server():
    head = (
        b"GET http://web.shop:8080/a?b=c HTTP/1.1\r\nHost: web.shop:8080\r\nProxy-Connection: keep-alive\r\n"
        b"Connection: keep-alive\r\nAccept: */*\r\n\r\n"
    )
    assert parse_request(head) == (
        "web.shop",
        8080,
        b"GET /a?b=c HTTP/1.1\r\nHost: web.shop:8080\r\nAccept: */*\r\nConnection: close\r\n\r\n",
    )


@pytest.mark.parametrize(
    ("line", "host", "port"),
    [
        (b"CONNECT web:443 HTTP/1.1", "web", 443),
        (b"CONNECT [fd00::1]:443 HTTP/1.1", "fd00::1", 443),
        (b"POST http://10.96.0.7/ HTTP/1.0", "10.96.0.7", 80),
        (b"GET http://user:secret@web HTTP/1.1", "web", 80),
    ],
)
def test_targets(line: bytes, host: str, port: int):
    assert parse_request(line + b"\r\n\r\n")[:2] == (host, port)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"GET / HTTP/1.1", "whole URL"),
        (b"GET https://web/ HTTP/1.1", "whole URL"),
        (b"CONNECT web HTTP/1.1", "HOST:PORT"),
        (b"CONNECT web:99999 HTTP/1.1", "HOST:PORT"),
        (b"GET http:///x HTTP/1.1", "HOST:PORT"),
        (b"GET http://[::1/ HTTP/1.1", "HOST:PORT"),
        (b"PRI * HTTP/2.0", "not a request of HTTP/1.1"),
        (b"\x16\x03\x01", "not a request of HTTP/1.1"),
        (b"", "not a request of HTTP/1.1"),
    ],
)
def test_bad_requests_have_their_reason(line: bytes, reason: str):
    with pytest.raises(BadRequest, match=reason):
        parse_request(line + b"\r\n\r\n")


@given(st.binary(max_size=200))
def test_no_bytes_cause_another_error(head: bytes):
    for start in (b"", b"GET http://", b"CONNECT "):
        with contextlib.suppress(BadRequest):
            parse_request(start + head + b"\r\n\r\n")


def test_a_refusal_has_its_reason():
    assert refusal(502, "Bad Gateway", "web:80 does not answer") == (
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 35\r\n"
        b"Connection: close\r\n\r\nbridgehead: web:80 does not answer\n"
    )

"""The headers that the proxy passes on."""

from __future__ import annotations

from bridgehead.apiserver.proxying.headers import (
    escape_extra_key,
    is_valid,
    request_headers,
    response_headers,
    upgrade_headers,
    with_location,
)

CREDENTIALS = [
    (b"authorization", b"Bearer x"),
    (b"impersonate-user", b"a"),
    (b"impersonate-extra-b", b"c"),
    (b"x-remote-user", b"d"),
    (b"x-remote-extra-e", b"f"),
]


def test_a_request_keeps_its_own_headers():
    headers = [
        (b"host", b"api"),
        (b"cookie", b"a=b"),
        (b"connection", b"keep-alive, X-Mine"),
        (b"x-mine", b"1"),
        (b"te", b"gzip, trailers"),
        (b"transfer-encoding", b"chunked"),
        (b"upgrade", b"h2c"),
        (b"expect", b"100-continue"),
        (b"x-forwarded-for", b"10.0.0.9"),
        *CREDENTIALS,
    ]
    assert request_headers(headers, "10.0.0.8") == [
        (b"host", b"api"),
        (b"cookie", b"a=b"),
        (b"te", b"trailers"),
        (b"x-forwarded-for", b"10.0.0.9, 10.0.0.8"),
    ]
    assert request_headers([(b"host", b"api")], "") == [(b"host", b"api")]


def test_an_upgrade_keeps_the_headers_of_the_connection():
    token = b"base64url.bearer.authorization.k8s.io.dG9rZW4"
    own = [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
    offered = (b"sec-websocket-protocol", token + b", chat")
    forwarded = (b"x-forwarded-for", b"::1")
    assert upgrade_headers([*own, offered, *CREDENTIALS], "::1") == [
        *own,
        (b"sec-websocket-protocol", b"chat"),
        forwarded,
    ]
    assert upgrade_headers([*own, (b"sec-websocket-protocol", token)], "::1") == [*own, forwarded]
    body = [(b"content-length", b"9"), (b"transfer-encoding", b"chunked"), (b"trailer", b"x"), (b"expect", b"y")]
    assert upgrade_headers([*own, *body], "::1") == [*own, forwarded]


def test_a_response_loses_what_is_about_its_connection():
    headers = [
        (b"Content-Type", b"text/html"),
        (b"Content-Length", b"5"),
        (b"Date", b"now"),
        (b"Connection", b"X-Drop"),
        (b"X-Drop", b"1"),
        (b"Access-Control-Allow-Origin", b"*"),
        (b"Set-Cookie", b"a=b"),
        (b"Set-Cookie", b"c=d"),
    ]
    cookies = [(b"set-cookie", b"a=b"), (b"set-cookie", b"c=d")]
    assert response_headers(headers, keeps_length=False) == cookies
    assert response_headers(headers, keeps_length=True) == [(b"content-length", b"5"), *cookies]


def test_a_location_is_replaced():
    headers = [(b"location", b"/a"), (b"vary", b"b")]
    assert with_location(headers, "/c") == [(b"location", b"/c"), (b"vary", b"b")]


def test_a_value_of_two_lines_is_not_valid():
    assert is_valid([(b"a", b"b"), (b"c", b"")])
    assert not is_valid([(b"a", b"b"), (b"c", b"d\r\ne")])


def test_keys_of_extra_are_escaped():
    assert escape_extra_key("example.com/Key é") == "example.com%2FKey%20%C3%A9"

"""Bearer tokens of requests."""

from __future__ import annotations

import base64

import pytest

from bridgehead.apiserver.access.bearer_token import bearer_token
from bridgehead.apiserver.http.user import InvalidCredentials


def subprotocol(token: bytes) -> bytes:
    encoded = base64.urlsafe_b64encode(token).rstrip(b"=")
    return b"base64url.bearer.authorization.k8s.io." + encoded


def socket(*names: bytes) -> dict[bytes, bytes]:
    return {b"upgrade": b"websocket", b"sec-websocket-protocol": b", ".join(names)}


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({}, ""),
        ({b"authorization": b"Bearer abc"}, "abc"),
        ({b"authorization": b"bearer  abc "}, "abc"),
        ({b"authorization": b"Basic abc"}, ""),
        ({b"authorization": b"Bearer"}, ""),
        (socket(subprotocol(b"abc"), b"v5.channel.k8s.io"), "abc"),
        (socket(b"v4.channel.k8s.io", subprotocol("t\u00f6ken".encode())), "t\u00f6ken"),
        (socket(b"v4.channel.k8s.io"), ""),
        ({b"upgrade": b"websocket"}, ""),
        ({b"sec-websocket-protocol": subprotocol(b"abc") + b",x"}, ""),
        ({b"authorization": b"Bearer abc", **socket(subprotocol(b"other"), b"x")}, "abc"),
    ],
)
def test_a_token_is_in_the_header_or_in_a_subprotocol(headers, token):
    assert bearer_token(headers) == token


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ((subprotocol(b"abc"),), "missing additional subprotocol"),
        ((subprotocol(b"abc"), subprotocol(b"abc"), b"x"), "multiple base64.bearer.authorization tokens specified"),
        ((subprotocol(b"abc") + b"=", b"x"), "invalid base64.bearer.authorization token encoding"),
        ((subprotocol(b"abc") + b"a", b"x"), "invalid base64.bearer.authorization token"),
        ((subprotocol(b"\xff\xfe"), b"x"), "invalid base64.bearer.authorization token"),
    ],
)
def test_malformed_tokens_of_subprotocols_are_refused(names, why):
    with pytest.raises(InvalidCredentials, match=why):
        bearer_token(socket(*names))

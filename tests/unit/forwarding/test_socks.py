from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.forwarding import socks

CONNECT = bytes((5, 1, 0))
PORT = (80).to_bytes(2, "big")


@pytest.mark.parametrize(
    ("message", "host"),
    [
        (CONNECT + bytes((1, 10, 96, 0, 10)) + PORT, "10.96.0.10"),
        (CONNECT + bytes((3, 11)) + b"web.default" + PORT, "web.default"),
        (CONNECT + bytes((4,)) + bytes.fromhex("fd000010009600000000000000000001") + PORT, "fd00:10:96::1"),
    ],
)
def test_hosts_of_each_address_type(message: bytes, host: str):
    head, rest = message[:5], message[5:]
    assert socks.address_length(head) == len(rest)
    assert socks.parse_request(head, rest) == (host, 80)


@pytest.mark.parametrize(
    ("head", "reply"),
    [
        (bytes((5, 2, 0, 1, 0)), socks.COMMAND_NOT_SUPPORTED),  # BIND
        (bytes((5, 3, 0, 1, 0)), socks.COMMAND_NOT_SUPPORTED),  # UDP ASSOCIATE
        (bytes((4, 1, 0, 1, 0)), socks.COMMAND_NOT_SUPPORTED),
        (bytes((5, 1, 0, 2, 0)), socks.ADDRESS_TYPE_NOT_SUPPORTED),
    ],
)
def test_other_requests_are_refused_with_their_reply(head: bytes, reply: int):
    with pytest.raises(socks.Unsupported) as refused:
        socks.address_length(head)
    assert refused.value.reply == reply


@given(st.binary(min_size=5, max_size=5), st.binary(max_size=260))
def test_no_bytes_cause_another_error(head: bytes, rest: bytes):
    try:
        length = socks.address_length(head)
        if len(rest) >= length:
            socks.parse_request(head, rest[:length])
    except socks.Unsupported:
        pass


def test_only_clients_without_authentication_are_accepted():
    assert socks.accepts_no_authentication(bytes((2, 0)))
    assert not socks.accepts_no_authentication(bytes((1, 2)))

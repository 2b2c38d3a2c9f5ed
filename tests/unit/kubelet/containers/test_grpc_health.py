"""Health checks of gRPC: the bytes of the request, and answers in any pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.kubelet.containers.grpc_health import BadPacket, HealthAnswer, health_request


def frame(kind: int, payload: bytes = b"", *, flags: int = 0, stream: int = 1) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


SETTINGS, SETTINGS_ACK = frame(4, stream=0), frame(4, flags=1, stream=0)
HEADERS = frame(1, b"\x88", flags=4)
TRAILERS = frame(1, b"\x00\x0bgrpc-status\x010", flags=5)


def answer(message: bytes, *, padding: int = 0) -> bytes:
    body = b"\0" + len(message).to_bytes(4, "big") + message
    data = frame(0, bytes([padding]) + body + bytes(padding), flags=8) if padding else frame(0, body)
    return SETTINGS + HEADERS + data + TRAILERS


def test_the_request_asks_for_a_service():
    sent = health_request("10.0.0.1:9000", "shop", "kube-probe/1.36")
    preface, rest = sent[:24], sent[24:]
    assert preface == b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    assert rest.startswith(SETTINGS)
    headers = rest[len(SETTINGS) :]
    assert b"\0\x05:path\x1c/grpc.health.v1.Health/Check" in headers
    assert b"\0\x0a:authority\x0d10.0.0.1:9000" in headers
    assert headers.endswith(frame(0, b"\0\0\0\0\x06\x0a\x04shop", flags=1))
    assert health_request("a", "", "b").endswith(frame(0, bytes(5), flags=1))
    assert b"\x0a\xac\x02" + b"x" * 300 in health_request("a", "x" * 300, "b")
    assert b"\x0a:authority\x7f\x49" + b"a" * 200 in health_request("a" * 200, "", "b")


@given(st.sampled_from([(b"", "UNKNOWN"), (b"\x08\x01", "SERVING"), (b"\x08\x02", "NOT_SERVING")]), st.data())
def test_an_answer_is_read_in_any_pieces(result, data):
    message, status = result
    raw = answer(message, padding=data.draw(st.sampled_from([0, 3])))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=5)))
    reading, replies = HealthAnswer(), b""
    for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        assert not reading.is_complete or start == len(raw)
        replies += reading.feed_untrusted(raw[start:end])
    assert reading.is_complete
    assert reading.status() == status
    assert replies == SETTINGS_ACK


def test_pings_are_answered_and_other_frames_ignored():
    reading = HealthAnswer()
    assert reading.feed_untrusted(SETTINGS_ACK + frame(6, b"12345678", stream=0)) == frame(
        6, b"12345678", flags=1, stream=0
    )
    assert reading.feed_untrusted(frame(6, b"12345678", flags=1, stream=0) + frame(8, bytes(4))) == b""
    assert not reading.is_complete


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (SETTINGS + HEADERS + TRAILERS, "no response"),
        (answer(b"\x08\x09"), "not a HealthCheckResponse"),
        (answer(b"\x12\x01"), "not a HealthCheckResponse"),
        (SETTINGS + HEADERS + frame(0, b"\1\0\0\0\2\x08\x01") + TRAILERS, "no response"),
        (SETTINGS + frame(3, bytes(4)), "ended the call"),
        (frame(7, bytes(8), stream=0), "ended the call"),
        (frame(0, bytes(65)), "too long"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak HTTP/2"),
    ],
)
def test_other_answers_are_refused(raw, text):
    reading = HealthAnswer()
    with pytest.raises(BadPacket, match=text):  # noqa: PT012 - either of the two
        reading.feed_untrusted(raw)
        reading.status()


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_refused(raw):
    reading = HealthAnswer()
    try:
        reading.feed_untrusted(raw)
        reading.status()
    except BadPacket:
        pass

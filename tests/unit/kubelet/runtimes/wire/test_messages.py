"""Frames between kubelet and runtime."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.kubelet.runtimes.wire import messages


@given(st.integers(min_value=1, max_value=50))
def test_frames_may_arrive_in_pieces(size: int) -> None:
    sent = [messages.Request(n, messages.SignalContainer("c" * n, n)) for n in range(1, 5)]
    stream = b"".join(messages.encode_frame(request) for request in sent)
    buffer = messages.FrameBuffer()
    bodies = [body for at in range(0, len(stream), size) for body in buffer.feed(stream[at : at + size])]
    assert [msgspec.msgpack.decode(body, type=messages.Request) for body in bodies] == sent


def test_an_oversized_frame_is_refused() -> None:
    with pytest.raises(messages.BadFrame):
        messages.FrameBuffer().feed(b"GET / HTTP/1.1\r\n")

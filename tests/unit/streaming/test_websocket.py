"""Frames of a WebSocket as a server reads and writes them."""

from __future__ import annotations

import itertools
import operator
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.streaming.websocket import (
    NORMAL_CLOSURE,
    BadFrame,
    Close,
    Piece,
    Ping,
    Reader,
    accept_key,
    close_frame,
    message_frame,
    pong_frame,
)

TEXT, BINARY, CONTINUATION, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10
MASK = b"\x12\x34\x56\x78"


def _masked(content: bytes, mask: bytes) -> bytes:
    return bytes(map(operator.xor, content, itertools.cycle(mask)))


def client_frame(opcode: int, content: bytes, *, is_final: bool = True, mask: bytes = MASK) -> bytes:
    """A frame as a client sends it."""
    first = (0x80 if is_final else 0) | opcode
    length = len(content)
    if length < 126:
        head = struct.pack(">BB", first, 0x80 | length)
    elif length < 65536:
        head = struct.pack(">BBH", first, 0x80 | 126, length)
    else:
        head = struct.pack(">BBQ", first, 0x80 | 127, length)
    return head + mask + _masked(content, mask)


def joined(events) -> list[tuple[bytes, bool]]:
    """The messages of which the events are pieces."""
    messages: list[tuple[bytes, bool]] = []
    content = b""
    is_open = False
    for event in events:
        assert isinstance(event, Piece)
        assert event.is_first is not is_open
        content = event.content if event.is_first else content + event.content
        is_open = not event.is_last
        if event.is_last:
            messages.append((content, event.is_text))
    return messages


@given(
    messages=st.lists(st.tuples(st.binary(max_size=300), st.booleans()), max_size=4),
    data=st.data(),
)
def test_messages_in_any_frames_and_chunks_are_read(messages, data):
    sent = b""
    for content, is_text in messages:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=3)))
        parts = [content[a:b] for a, b in zip([0, *cuts], [*cuts, len(content)], strict=True)]
        for number, part in enumerate(parts):
            opcode = CONTINUATION if number else TEXT if is_text else BINARY
            sent += client_frame(opcode, part, is_final=number == len(parts) - 1)
    reader, events = Reader(), []
    step = data.draw(st.integers(1, 50))
    for start in range(0, len(sent), step):
        events += reader.feed_untrusted(sent[start : start + step])
    assert joined(events) == messages


@pytest.mark.parametrize("length", [0, 125, 126, 65_535, 65_536])
def test_lengths_are_read_in_all_their_forms(length):
    reader, sent = Reader(), client_frame(BINARY, b"x" * length)
    heads = [event for at in range(13) for event in reader.feed_untrusted(sent[at : at + 1])]
    assert joined([*heads, *reader.feed_untrusted(sent[13:])]) == [(b"x" * length, False)]


def test_a_piece_of_a_long_message_is_returned_before_the_rest_comes():
    whole = client_frame(BINARY, b"x" * 100_000)
    [piece] = Reader().feed_untrusted(whole[:50_000])
    assert piece == Piece(b"x" * (50_000 - 14), is_text=False, is_first=True, is_last=False)


def test_control_frames_may_be_within_a_message():
    reader = Reader()
    events = reader.feed_untrusted(
        client_frame(TEXT, b"a", is_final=False)
        + client_frame(PING, b"alive?")
        + client_frame(PONG, b"")
        + client_frame(CONTINUATION, b"b")
        + client_frame(CLOSE, struct.pack(">H", 1000) + b"bye")
        + client_frame(TEXT, b"after the end")
    )
    assert events[1] == Ping(b"alive?")
    assert events[3] == Close(b"\x03\xe8bye")
    assert joined([events[0], events[2]]) == [(b"ab", True)]
    assert len(events) == 4
    assert reader.feed_untrusted(client_frame(TEXT, b"more")) == []


def test_a_control_frame_is_returned_when_it_is_complete():
    reader, ping = Reader(), client_frame(PING, b"alive?")
    assert reader.feed_untrusted(ping[:-1]) == []
    assert reader.feed_untrusted(ping[-1:]) == [Ping(b"alive?")]


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (b"\x82\x01x", "without a mask"),
        (b"\xc2\x81" + MASK + b"x", "extension"),
        (client_frame(3, b""), "opcode 3"),
        (client_frame(11, b""), "opcode 11"),
        (client_frame(PING, b"x" * 126), "control frame"),
        (client_frame(PING, b"", is_final=False), "control frame"),
        (client_frame(CONTINUATION, b"x"), "out of order"),
        (client_frame(TEXT, b"x", is_final=False) + client_frame(TEXT, b"y"), "out of order"),
    ],
)
def test_other_frames_are_rejected(frame, why):
    with pytest.raises(BadFrame, match=why):
        Reader().feed_untrusted(frame)


def test_frames_to_the_client():
    assert message_frame(b"x") == b"\x82\x01x"
    assert message_frame(b"x", is_text=True) == b"\x81\x01x"
    assert message_frame(b"x" * 126) == b"\x82\x7e\x00\x7e" + b"x" * 126
    assert message_frame(b"x" * 65536)[:10] == b"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00"
    assert pong_frame(b"yes") == b"\x8a\x03yes"
    assert close_frame(NORMAL_CLOSURE) == b"\x88\x02\x03\xe8"


def test_the_key_of_a_handshake():
    # The example of RFC 6455, 1.3.
    assert accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

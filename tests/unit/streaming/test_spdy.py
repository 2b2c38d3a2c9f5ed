"""The part of SPDY/3.1 that port-forward speaks."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.streaming.spdy import (
    DICTIONARY,
    BadFrame,
    Data,
    GoAway,
    OpenStream,
    Ping,
    Reader,
    Reset,
    data_frame,
    ping_frame,
    reset_frame,
)
from tests.spdy_client import ClientWriter


def test_the_dictionary_equals_the_specification():
    # The id that zlib writes into every SPDY/3 stream.
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2


def test_frames_are_parsed_as_they_were_written_in_any_pieces():
    writer = ClientWriter()
    headers = {"streamtype": "data", "port": "80", "requestid": "0"}
    sent = b"".join(
        (
            writer.open_stream(1, headers),
            writer.open_stream(3, {}),
            writer.accept_stream(2),
            data_frame(1, b"abc"),
            data_frame(3, b"", ends=True),
            ping_frame(7),
            reset_frame(1),
            b"\x80\x03\x00\x07\x00\x00\x00\x08" + bytes(8),
        )
    )
    expected = [
        OpenStream(1, headers),
        OpenStream(3, {}),
        Data(1, b"abc"),
        Data(3, b"", True),
        Ping(7),
        Reset(1),
        GoAway(),
    ]
    assert Reader().feed_untrusted(sent) == expected
    reader = Reader()
    assert [frame for byte in sent for frame in reader.feed_untrusted(bytes((byte,)))] == expected


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02\x00\x01\x00\x00\x00\x00",
        b"\x80\x03\x00\x01\x00\x00\x00\x0c" + bytes(12),
        b"\x80\x03\x00\x06\x00\x00\x00\x00",
        b"\x00\x00\x00\x01\x00\xff\xff\xff",
        ClientWriter().open_stream(1, {str(number): "" for number in range(101)}),
        ClientWriter().open_stream(1, {"port": "x" * 20_000}),
    ],
    ids=["version 2", "no header block", "short ping", "huge frame", "many headers", "long header"],
)
def test_invalid_spdy_is_refused(data):
    with pytest.raises(BadFrame):
        Reader().feed_untrusted(data)


@given(st.lists(st.binary(max_size=64), max_size=8))
def test_any_bytes_raise_only_protocol_errors(pieces):
    reader = Reader()
    try:
        for piece in pieces:
            reader.feed_untrusted(piece)
    except BadFrame:
        pass

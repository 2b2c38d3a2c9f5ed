"""Bodies that are changed under their content coding."""

from __future__ import annotations

import gzip
import zlib

import pytest

from bridgehead.apiserver.proxying.decompression import Recoder


def recoded(coding, *pieces):
    recoder = Recoder(coding, bytes.upper, lambda: b"END")
    return b"".join(changed for piece in pieces for changed in recoder.pieces(piece)) + recoder.end()


def test_a_body_is_changed_wherever_it_is_split():
    text = b"hello " * 50_000
    raw = zlib.compressobj(wbits=-15)
    for coding, body, decompress in (
        ("gzip", gzip.compress(text), gzip.decompress),
        ("gzip", gzip.compress(text[:6]) + gzip.compress(text[6:]), gzip.decompress),
        ("deflate", raw.compress(text) + raw.flush(), lambda data: zlib.decompress(data, -15)),
    ):
        for size in (1, 100, len(body)):
            pieces = [body[start : start + size] for start in range(0, len(body), size)]
            assert decompress(recoded(coding, *pieces)) == text.upper() + b"END"


def test_a_large_body_comes_in_pieces():
    recoder = Recoder("gzip", lambda data: data, lambda: b"")
    pieces = list(recoder.pieces(gzip.compress(bytes(10 << 20))))
    assert len(pieces) > 100


def test_a_body_that_is_not_compressed_is_an_error():
    with pytest.raises(zlib.error):
        recoded("gzip", b"<html>")

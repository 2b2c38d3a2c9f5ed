"""Tar archives of every form that layers have, and those that are made to cost a reader more than their bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.images.errors import BadImage
from bridgehead.images.store import tar_headers
from bridgehead.images.store.compression import LayerReader, ReadAhead
from bridgehead.images.store.tar_stream import MAX_EXTENSION, TarStream
from tests.image_files import tar_of

BLOCK = 512


def read_all(archive: bytes, piece: int = 1000) -> list[tuple[str, bytes, bytes]]:
    """The entries of an archive that is read in pieces: names, kinds and content, with the holes of sparse files."""
    pieces = iter([archive[start : start + piece] for start in range(0, len(archive), piece)])
    stream = TarStream(lambda: next(pieces, b""))
    found = []
    for member in stream:
        data = b"".join(map(bytes, stream.data()))
        content = bytearray(member.size)
        for offset, length in member.regions:
            content[offset : offset + length], data = data[:length], data[length:]
        found.append((member.header.name, member.header.kind, bytes(content)))
    return found


def header(name: str, size: int, kind: bytes = b"0", **fields: bytes) -> bytes:
    """A GNU header block; `fields` are offsets, as `at_386`, with the bytes there."""
    block = bytearray(BLOCK)
    block[: len(name)] = name.encode()
    for offset, length, number in ((100, 8, 0o644), (108, 8, 0), (116, 8, 0), (124, 12, size), (136, 12, 0)):
        block[offset : offset + length] = f"{number:0{length - 1}o}\0".encode()
    block[156:157] = kind
    block[257:265] = b"ustar  \0"
    for name, value in fields.items():
        start = int(name.removeprefix("at_"))
        block[start : start + len(value)] = value
    block[148:156] = f"{sum(block) + 8 * 32:06o}\0 ".encode()
    return bytes(block)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


def pax(records: Iterable[tuple[str, str]]) -> bytes:
    content = b""
    for key, value in records:
        text = f" {key}={value}\n".encode()
        length = len(text) + 1
        while len(str(length)) + len(text) != length:
            length += 1
        content += str(length).encode() + text
    return header("pax", len(content), b"x") + padded(content)


def pair(offset: int, length: int) -> bytes:
    return f"{offset:011o}\0{length:011o}\0".encode()


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@given(
    names=st.lists(st.text("ab/é", min_size=1, max_size=40).filter(lambda name: name.strip("/")), max_size=4),
    data=st.binary(max_size=1500),
    piece=st.integers(1, 3000),
)
def test_archives_of_other_programs_are_read(form: int, names: list[str], data: bytes, piece: int) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    assert read_all(file.getvalue(), piece) == [(name, b"0", data) for name in names]


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_large_numbers_and_times_are_kept(form: int) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as archive:
        member = tarfile.TarInfo("directory/" * 20 + "name")
        member.type, member.linkname = tarfile.SYMTYPE, "target/" * 30
        member.uid, member.mtime = 3_000_000_000, -1.5
        archive.addfile(member)
    [found] = list(TarStream(iter([file.getvalue()]).__next__))
    assert (found.header.name, found.header.link) == (member.name, member.linkname)
    assert (found.header.kind, found.header.uid) == (tar_headers.SYMBOLIC_LINK, 3_000_000_000)
    assert found.header.mtime == (-1_500_000_000 if form == tarfile.PAX_FORMAT else -1_000_000_000)


def test_an_archive_of_version_7_has_directories_by_their_names() -> None:
    old = header("d/", 0, b"\0", at_257=bytes(8)) + header("d/f", 2, b"\0", at_257=bytes(8)) + padded(b"hi")
    assert read_all(old) == [("d/", b"5", b""), ("d/f", b"0", b"hi")]


SPARSE_CONTENT = b"ab" + bytes(998) + b"cd" + bytes(1000)


@pytest.mark.parametrize(
    "archive",
    [
        header("f", 4, b"S", at_386=pair(0, 2) + pair(1000, 2), at_483=f"{2002:011o}\0".encode()) + padded(b"abcd"),
        header("f", 4, b"S", at_386=pair(0, 2), at_482=b"\1", at_483=f"{2002:011o}\0".encode())
        + padded(pair(1000, 2))
        + padded(b"abcd"),
        pax([("GNU.sparse.size", "2002"), ("GNU.sparse.map", "0,2,1000,2")]) + header("f", 4) + padded(b"abcd"),
        pax(
            [
                ("GNU.sparse.size", "2002"),
                *[("GNU.sparse.offset", "0"), ("GNU.sparse.numbytes", "2")],
                *[("GNU.sparse.offset", "1000"), ("GNU.sparse.numbytes", "2")],
            ]
        )
        + header("f", 4)
        + padded(b"abcd"),
        pax(
            [
                *[("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0")],
                *[("GNU.sparse.name", "f"), ("GNU.sparse.realsize", "2002")],
            ]
        )
        + header("GNUSparseFile.0/f", 516)
        + padded(b"2\n0\n2\n1000\n2\n")
        + padded(b"abcd"),
    ],
    ids=["gnu", "gnu-continued", "pax-0.1", "pax-0.0", "pax-1.0"],
)  # fmt: skip
def test_sparse_files_of_every_form(archive: bytes) -> None:
    after = header("after", 1) + padded(b"x")
    assert read_all(archive + after + bytes(1024)) == [("f", b"0" if b"GNU." in archive else b"S", SPARSE_CONTENT),
                                                       ("after", b"0", b"x")]  # fmt: skip


VERSION_1 = [("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.realsize", "9")]


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (header("f", 1 << 62, b"x"), "a header of"),
        (header("f", MAX_EXTENSION + 1, b"L"), "a header of"),
        (pax([("size", "1" * 30)]) + header("f", 0), "is not a number"),
        (pax([("size", str(1 << 63))]) + header("f", 0), "a size of"),
        (pax([("mtime", "inf")]) + header("f", 0), "is not a time"),
        (header("x", 5, b"x") + padded(b"9 a=b"), "invalid PAX header"),
        (header("x", 4, b"x") + padded(b"0 a="), "invalid PAX header"),
        (header("x", MAX_EXTENSION, b"x") + b"1" * MAX_EXTENSION, "invalid PAX header"),
        (header("f", 0, b"S", at_482=b"\1") + padded(bytes(504) + b"\1") * 3000, "more than 1048576 bytes"),
        (pax(VERSION_1) + header("f", 9 << 20) + b"9999999\n" + b"1\n" * (4 << 20), "more than 1048576 bytes"),
        (pax(VERSION_1) + header("f", 9 << 20) + b"1" * (9 << 20), "invalid map"),
        (pax(VERSION_1) + header("f", 100) + padded(b"1\n0\n1\n"), "invalid map"),
        (pax(VERSION_1) + header("f", 513) + padded(b"1\n9\n1\n") + padded(b"x"), "invalid map"),
        (pax([("GNU.sparse.size", "9"), ("GNU.sparse.map", "0,1,2")]) + header("f", 1), "invalid map"),
        (pax([("GNU.sparse.size", "9"), ("GNU.sparse.map", "5,1,2,1")]) + header("f", 2), "invalid map"),
        (pax([("GNU.sparse.size", "9"), ("GNU.sparse.map", "0,9")]) + header("f", 1), "invalid map"),
        (header("f", 0, b"N"), "unsupported type"),
        (header("f", 0).replace(b"f", b"g", 1), "wrong checksum"),
        (b"this is no archive" * 100, "not a tar archive"),
        (header("f", 100) + b"short", "ends inside of a file"),
        (header("f", 0)[:300], "unexpected end"),
    ],
)  # fmt: skip
def test_what_is_no_archive_or_has_no_bound_is_refused(archive: bytes, message: str) -> None:
    with pytest.raises(BadImage, match=message):
        read_all(archive, 1 << 16)


def test_a_checksum_of_signed_bytes_is_accepted() -> None:
    block = bytearray(header("é", 0))
    block[148:156] = f"{sum(block) - sum(block[148:156]) + 8 * 32 - 256 * 2:06o}\0 ".encode()
    assert read_all(bytes(block) + bytes(1024)) == [("é", b"0", b"")]


@given(st.binary(max_size=2000))
def test_any_bytes_are_an_archive_or_refused(content: bytes) -> None:
    for archive in (content, header("f", 3) + content, header("x", len(content), b"x") + padded(content)):
        try:
            read_all(archive)
        except BadImage:
            continue


def inflate(content: bytes) -> bytes:
    """The uncompressed bytes of a layer."""
    with ReadAhead(LayerReader(io.BytesIO(content), "sha256", lambda _: None).read) as ahead:
        return b"".join(iter(ahead.read, b""))


def test_members_of_gzip_are_joined_and_zeros_behind_them_skipped() -> None:
    empty = gzip.compress(b"")
    text = gzip.compress(b"x" * 3_000_000)
    content = text + empty * 3 + bytes(100_000) + gzip.compress(b"y") + bytes(7)
    assert inflate(content) == b"x" * 3_000_000 + b"y"


def test_empty_members_cost_no_more_than_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zlib copies what it does not use, so the input that it is given must be near what it uses."""
    given_bytes = 0

    class Counting:
        def __init__(self, bits: int) -> None:
            self._inflate = compression_zlib(bits)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inflate, name)

        def decompress(self, data: bytes, bound: int) -> bytes:
            nonlocal given_bytes
            given_bytes += len(data)
            return self._inflate.decompress(data, bound)

    compression_zlib = zlib.decompressobj
    monkeypatch.setattr(zlib, "decompressobj", Counting)
    content = gzip.compress(b"") * 5000
    assert inflate(content) == b""
    assert given_bytes < 60 * len(content)


def test_a_failure_of_the_thread_is_raised_where_its_bytes_are_read() -> None:
    with pytest.raises(BadImage, match="truncated"):
        inflate(gzip.compress(tar_of([("f", "x" * 5000)]))[:-20])

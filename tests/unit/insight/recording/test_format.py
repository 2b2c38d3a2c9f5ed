"""The file of a recording: what is written is read, and a stranger's file costs one line."""

from __future__ import annotations

import contextlib
import gzip
import os
import zlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.insight.recording import format as recording_format
from bridgehead.insight.recording.files import Full, Writer, read_recording, writing
from bridgehead.insight.recording.format import EndEntry, Header, InvalidRecording, decode, encode_line

from .objects import HEADER, added, end, node, recording_of, service


def test_entries_are_read_as_they_were_written():
    entries = (added(service()), added(node(), 0.5), end(2.0))

    found = decode([recording_of(*entries)])

    assert found.header == HEADER
    assert found.entries == entries
    assert found.seconds == 2.0


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_pieces_of_any_size_are_read(size):
    content = recording_of(added(service()), end())

    assert len(decode(content[at : at + size] for at in range(0, len(content), size)).entries) == 2


def _lines(*lines: bytes) -> bytes:
    return gzip.compress(b"\n".join((msgspec.json.encode(HEADER), *lines, b"")))


def _object(text: str) -> bytes:
    return f'{{"type":"object","at":0,"change":"added","object":{text}}}'.encode()


END = b'{"type":"end","at":1}'
NAMED = '"metadata":{"name":"web","namespace":"default"}'
HOSTILE = {
    "nothing": (b"", "empty"),
    "no gzip": (b"hello", "not a recording"),
    "cut": (recording_of(end())[:-9], "cut"),
    "other version": (recording_of(end(), header=Header(version=2, began=0.0)), "version 2"),
    "no header": (gzip.compress(END + b"\n"), "not a recording"),
    "other JSON": (gzip.compress(b"[]\n"), "not a recording"),
    "no end": (_lines(_object(f'{{"apiVersion":"v1","kind":"Service",{NAMED}}}')), "cut"),
    "incomplete line": (gzip.compress(encode_line(HEADER) + END), "incomplete"),
    "after the end": (_lines(END, END), "after the end"),
    "second stream": (recording_of(end()) + recording_of(end()), "after its end"),
    "unknown entry": (_lines(b'{"type":"shell","at":0}', END), "line 2"),
    "no JSON": (_lines(b"\x1b[31m", END), "line 2"),
    "invalid UTF-8": (_lines(_object('{"apiVersion":"v1"}').replace(b"v1", b"\xff"), END), "line 2"),
    "wrong type": (_lines(_object("[]"), END), "line 2"),
    "time before the last": (
        _lines(b'{"type":"unseen","at":3,"unseen":{"what":"a","why":"b"}}', b'{"type":"end","at":1}'),
        "time",
    ),
    "endless time": (_lines(b'{"type":"end","at":1e300}'), "time"),
    "negative time": (_lines(b'{"type":"end","at":-1}'), "time"),
    "deep": (_lines(_object("[" * 100_000 + "]" * 100_000), END), "line 2"),
    "deep enough": (
        _lines(_object(f'{{"apiVersion":"v1","kind":"Service",{NAMED},"spec":{"[" * 100}{"]" * 100}}}'), END),
        "deeply",
    ),
    "a Secret": (_lines(_object(f'{{"apiVersion":"v1","kind":"Secret",{NAMED}}}'), END), "kind"),
    "no metadata": (_lines(_object('{"apiVersion":"v1","kind":"Service"}'), END), "not an object"),
    "path as a name": (
        _lines(
            _object('{"apiVersion":"v1","kind":"Service","metadata":{"name":"../../x","namespace":"default"}}'), END
        ),
        "invalid name",
    ),
    "escape as a namespace": (
        _lines(_object('{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","namespace":"\\u001b[2J"}}'), END),
        "invalid namespace",
    ),
    "namespace of a node": (_lines(_object(f'{{"apiVersion":"v1","kind":"Node",{NAMED}}}'), END), "namespace"),
    "long line": (_lines(b" " * (recording_format.MOST_LINE_BYTES + 1), END), "a line of more"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_one_line(name):
    content, text = HOSTILE[name]

    with pytest.raises(InvalidRecording, match=text) as refused:
        decode([content])

    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300


def test_a_bomb_is_refused_before_it_unfolds(monkeypatch):
    monkeypatch.setattr(recording_format, "MOST_BYTES", 2 << 20)
    deflater = zlib.compressobj(9, wbits=31)
    zeros = b"\n" * (1 << 20)
    content = b"".join(deflater.compress(zeros) for _ in range(5)) + deflater.flush()

    with pytest.raises(InvalidRecording):
        decode([content])


def test_the_number_of_entries_is_bounded(monkeypatch):
    monkeypatch.setattr(recording_format, "MOST_ENTRIES", 3)

    with pytest.raises(InvalidRecording, match="more than 3 entries"):
        decode([recording_of(*(added(service()) for _ in range(4)), end())])


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_refused_or_read(content, is_compressed):
    _read(gzip.compress(encode_line(HEADER) + content) if is_compressed else content)


def _read(content: bytes) -> None:
    """Read a file that may be a recording. Any error but a refusal fails the test."""
    with contextlib.suppress(InvalidRecording):
        decode([content])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=15,
)


@given(JSON, JSON, JSON)
def test_any_json_is_refused_or_read(metadata, spec, at):
    entry = {"type": "object", "at": at, "change": "added"}
    entry["object"] = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    _read(_lines(msgspec.json.encode(entry), END))


def test_only_the_owner_may_read_the_file(tmp_path):
    path = tmp_path / "a.rec"

    with writing(path, replace=False) as writer:
        writer.add(HEADER)
        writer.add(added(service()))
        assert not path.exists()
        writer.add(end(), is_last=True)
        writer.commit(replace=False)

    assert path.stat().st_mode & 0o777 == 0o600
    assert len(read_recording(path).entries) == 2
    assert os.listdir(tmp_path) == ["a.rec"]


def test_a_file_is_replaced_on_request_only(tmp_path):
    path = tmp_path / "a.rec"
    path.write_text("mine")

    with pytest.raises(FileExistsError), writing(path, replace=False):
        pass
    with pytest.raises(RuntimeError), writing(path, replace=True):
        raise RuntimeError
    assert path.read_text() == "mine"
    assert os.listdir(tmp_path) == ["a.rec"]
    with writing(path, replace=True) as writer:
        writer.add(HEADER)
        writer.add(end(), is_last=True)
        writer.commit(replace=True)
    assert read_recording(path).entries == (end(),)


def test_a_writer_makes_no_file_that_a_reader_refuses(tmp_path, monkeypatch):
    monkeypatch.setattr("bridgehead.insight.recording.files.MOST_ENTRIES", 3)
    monkeypatch.setattr(recording_format, "MOST_ENTRIES", 3)
    path = tmp_path / "a.rec"

    with writing(path, replace=False) as writer:
        _fill(writer)
        writer.add(EndEntry(at=1.0, is_cut=True), is_last=True)
        writer.commit(replace=False)

    assert len(read_recording(path).entries) == 3


def _fill(writer: Writer) -> None:
    writer.add(HEADER)
    writer.add(added(service()))
    writer.add(added(service()))
    with pytest.raises(Full):
        writer.add(added(service()))


def test_what_is_no_regular_file_is_refused(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    with pytest.raises(InvalidRecording):
        read_recording(fifo)
    with pytest.raises(InvalidRecording):
        read_recording(Path("/dev/zero"))

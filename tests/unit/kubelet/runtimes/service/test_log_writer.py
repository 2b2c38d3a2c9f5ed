"""Container logs: the CRI's format, cut lines, rotation."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.kubelet.runtimes.service.log_writer import KEPT_OLD_FILES, LINE_LIMIT, LineCutter, LogFile, timestamp

T = b"2024-01-02T03:04:05.000000006Z"


@pytest.mark.parametrize(
    ("writes", "entries", "rest"),
    [
        pytest.param([b"one\n"], b"T stdout F one\n", b"", id="a line"),
        pytest.param([b"one\ntwo\n"], b"T stdout F one\nT stdout F two\n", b"", id="two lines at once"),
        pytest.param([b"o", b"n", b"e\n"], b"T stdout F one\n", b"", id="a line in pieces"),
        pytest.param([b"one\ntw", b"o\n"], b"T stdout F one\nT stdout F two\n", b"", id="a piece of the next"),
        pytest.param([b"\n\n"], b"T stdout F \nT stdout F \n", b"", id="empty lines"),
        pytest.param([b"no newline"], b"", b"T stdout P no newline\n", id="the end without a newline"),
        pytest.param([b""], b"", b"", id="nothing"),
    ],
)
def test_entries_have_the_cri_format(writes: list[bytes], entries: bytes, rest: bytes) -> None:
    cutter = LineCutter("stdout")
    assert b"".join(cutter.feed(data, b"T") for data in writes) == entries
    assert cutter.finish(b"T") == rest
    assert cutter.finish(b"T") == b""


def test_a_long_line_is_split_into_partial_entries() -> None:
    line = b"a" * LINE_LIMIT + b"b" * LINE_LIMIT + b"c"
    entries = LineCutter("stderr").feed(line + b"\nshort\n", b"T").splitlines()
    assert [entry[:11] for entry in entries] == [b"T stderr P ", b"T stderr P ", b"T stderr F ", b"T stderr F "]
    assert [len(entry) - 11 for entry in entries] == [LINE_LIMIT, LINE_LIMIT, 1, 5]


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(min_value=1, max_value=7))
def test_no_byte_is_lost_wherever_output_is_split(writes: list[bytes], size: int) -> None:
    whole = b"".join(writes)
    cutter = LineCutter("stdout")
    log = b"".join(cutter.feed(whole[at : at + size], b"T") for at in range(0, len(whole), size)) + cutter.finish(b"T")
    text = b"".join(
        entry.removeprefix(b"T stdout F ") + b"\n" if entry.startswith(b"T stdout F ") else entry[len(b"T stdout P ") :]
        for entry in log.split(b"\n")[:-1]
    )
    assert text == whole


def test_timestamps_are_rfc3339_with_nanoseconds() -> None:
    assert timestamp(1704164645_000000006) == T


def test_a_log_is_rotated_and_old_files_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "pods" / "web" / "0.log"
    log = LogFile(str(path), rotate_at=100)
    for number in range(10):
        log.write(b"%d" % number * 99 + b"\n")
    log.write(b"last\n")
    log.close()
    assert path.read_bytes() == b"last\n"
    old = sorted(entry for entry in os.listdir(path.parent) if entry != "0.log")
    assert len(old) == KEPT_OLD_FILES
    assert all(re.fullmatch(r"0\.log\.\d{8}-\d{6}\.\d{9}", entry) for entry in old)
    assert (path.parent / old[-1]).read_bytes() == b"9" * 99 + b"\n"


def test_a_restarted_writer_appends_to_the_log(tmp_path: Path) -> None:
    for text in (b"one\n", b"two\n"):
        log = LogFile(str(tmp_path / "0.log"))
        log.write(text)
        log.close()
    assert (tmp_path / "0.log").read_bytes() == b"one\ntwo\n"

"""Log files as `kubectl logs` shows them."""

from __future__ import annotations

import asyncio

import pytest

from bridgehead.kubelet.containers.container_logs import (
    LogOptions,
    fallback_message,
    format_entry,
    parse_options,
    read_log,
    tail_offset,
)
from bridgehead.kubelet.errors import NotServed

T = "2026-11-21T03:00:0{}.000000001Z"


def entry(n, text, tag="F"):
    return f"{T.format(n)} stdout {tag} {text}\n"


async def read(path, running=lambda: False, **options):
    return b"".join([piece async for piece in read_log(path, LogOptions(**options), running)]).decode()


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "0.log"
    path.write_text(entry(1, "one") + entry(2, "par", "P") + entry(2, "tial") + entry(3, ""))
    return path


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "one\npartial\n\n"),
        ({"tail_lines": 1}, "\n"),
        ({"tail_lines": 0}, ""),
        ({"tail_lines": 99}, "one\npartial\n\n"),
        ({"limit_bytes": 5}, "one\np"),
        ({"since": 1795230002.0}, "partial\n\n"),
    ],
)
async def test_log_options_select_lines(log, options, text):
    assert await read(log, **options) == text


async def test_timestamps_are_printed_on_request(log):
    assert (await read(log, timestamps=True)).splitlines()[0] == T.format(1) + " one"


async def test_a_missing_log_is_empty(tmp_path):
    assert await read(tmp_path / "none.log") == ""


async def test_rotated_lines_are_included(log):
    (log.parent / "0.log.20261121-025900.000000001").write_text(entry(0, "zero"))
    assert await read(log) == "zero\none\npartial\n\n"
    assert await read(log, tail_lines=5) == "zero\none\npartial\n\n"
    assert await read(log, tail_lines=1) == "\n"


async def test_following_ends_with_the_container(log):
    seen, alive = [], True

    async def follow():
        async for piece in read_log(log, LogOptions(follow=True, tail_lines=1), lambda: alive):
            seen.append(piece)  # noqa: PERF401 - the test looks at it meanwhile

    async def until_seen(expected):
        while b"".join(seen) != expected:  # noqa: ASYNC110 - a file has no events
            await asyncio.sleep(0.01)

    async with asyncio.timeout(40):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(follow())
            await until_seen(b"\n")
            with log.open("a") as file:
                file.write(entry(4, "four")[:-3])
            await asyncio.sleep(0)
            with log.open("a") as file:
                file.write("ur\n")
            await until_seen(b"\nfour\n")
            log.rename(log.with_name("0.log.20261121-030000.000000001"))
            log.write_text(entry(5, "five"))
            await until_seen(b"\nfour\nfive\n")
            alive = False


@pytest.mark.parametrize(("lines", "expected"), [(1, (6, 1)), (2, (3, 2)), (3, (0, 3)), (4, (0, 3)), (0, (9, 0))])
def test_a_tail_starts_at_its_line(tmp_path, lines, expected):
    path = tmp_path / "l"
    path.write_text("aa\nbb\ncc\n")
    assert tail_offset(path, lines) == expected


def test_a_tail_can_span_many_blocks(tmp_path):
    path = tmp_path / "l"
    path.write_text("".join(f"{n:099d}\n" for n in range(3000)))
    assert tail_offset(path, 2000) == (100_000, 2000)


def test_the_fallback_message_is_the_end_of_the_log(tmp_path):
    path = tmp_path / "l"
    assert fallback_message(path) == ""
    path.write_text("".join(entry(n % 10, f"line {n}") for n in range(100)))
    assert fallback_message(path).splitlines() == [f"line {n}" for n in range(20, 100)]
    path.write_text(entry(1, "x" * 5000))
    assert len(fallback_message(path)) == 2048


def test_malformed_entries_are_skipped():
    assert format_entry(b"garbage", LogOptions()) is None
    assert format_entry(b"nonsense stdout F x", LogOptions(since=1.0)) is None


def test_options_are_read_from_a_query():
    query = {"follow": "true", "tailLines": "3", "sinceSeconds": "10", "timestamps": "1", "limitBytes": "9"}
    assert parse_options(query, 100.0) == LogOptions(
        follow=True, tail_lines=3, since=90.0, timestamps=True, limit_bytes=9
    )
    assert parse_options({"sinceTime": "1970-01-01T00:01:00Z", "previous": "true"}, 0.0) == LogOptions(
        since=60.0, previous=True
    )
    with pytest.raises(NotServed, match="unable to decode query"):
        parse_options({"tailLines": "many"}, 0.0)

"""ping of BusyBox: its options, messages and lines."""

from __future__ import annotations

import pytest

from bridgehead.standins.programs.busybox.echo_messages import (
    Options,
    Reply,
    Statistics,
    compute_checksum,
    decode_reply,
    encode_request,
    parse_arguments,
)
from bridgehead.standins.programs.busybox.options import BadNumber, BadOption


@pytest.mark.parametrize(
    ("argv", "options"),
    [
        (["web"], Options(host="web")),
        (["-c", "3", "web"], Options(host="web", count=3)),
        (["web", "-c3", "-q", "-A"], Options(host="web", count=3, is_quiet=True, is_adaptive=True)),
        (["-s", "9", "-t", "8", "-W", "7", "-w", "6", "w"], Options(host="w", size=9, ttl=8, wait=7, deadline=6)),
        (["-i", "0.5", "-p", "fF", "-I", "eth0", "w"], Options(host="w", interval=0.5, pattern=255, source="eth0")),
        (["-4", "-6", "w"], Options(host="w", family=6)),
    ],
)
def test_arguments(argv: list[str], options: Options) -> None:
    assert parse_arguments(argv) == options


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], ""),
        (["a", "b"], ""),
        (["-c"], "option requires an argument -- 'c'"),
        (["-Z", "a"], "invalid option -- 'Z'"),
        (["--nosuch", "a"], "unrecognized option '--nosuch'"),
    ],
)
def test_other_arguments_are_refused(argv: list[str], message: str) -> None:
    with pytest.raises(BadOption) as caught:
        parse_arguments(argv)
    assert str(caught.value) == message


@pytest.mark.parametrize("argv", [["-c", "x"], ["-s", "70000"], ["-i", "-1"], ["-i", ""], ["-p", "100"], ["-p", "x"]])
def test_other_numbers_are_refused(argv: list[str]) -> None:
    with pytest.raises(BadNumber):
        parse_arguments([*argv, "web"])


@pytest.mark.parametrize("size", [0, 3, 4, 55, 56])
def test_a_request_has_the_time(size: int) -> None:
    options = Options(host="web", size=size, pattern=0xAB)
    stamp, body = (b"\0\0\0\7", b"\xab" * (size - 4)) if size >= 4 else (b"", b"\xab" * size)
    request = encode_request(options, 4, 0x1234, 5, (1 << 32) + 7)
    assert compute_checksum(request) == 0
    assert request[:2] + request[4:] == b"\x08\0\x12\x34\0\5" + stamp + body
    assert encode_request(options, 6, 0x1234, 5, 7) == b"\x80\0\0\0\x12\x34\0\5" + stamp + body


@pytest.mark.parametrize(
    ("message", "version", "reply"),
    [
        (b"\0\0\0\0\0\1\0\2" + b"\0\0\0\7", 4, Reply(2, 12, 7)),
        (b"\x81\0\0\0\0\1\0\2" + b"\0\0\0\7ab", 6, Reply(2, 14, 7)),
        (b"\x08\0\0\0\0\1\0\2" + b"\0\0\0\7", 4, None),  # the request itself
        (b"\0\0\0\0\0\3\0\2" + b"\0\0\0\7", 4, None),  # another process's
        (b"\0\0\0\0\0\1\0\2" + b"\0\0", 4, None),  # too short
        (b"", 4, None),
    ],
)
def test_replies(message: bytes, version: int, reply: Reply | None) -> None:
    assert decode_reply(message, version, 1, 4) == reply


def test_a_reply_without_room_has_no_time() -> None:
    assert decode_reply(b"\0\0\0\0\0\1\0\2a", 4, 1, 1) == Reply(2, 9, None)


def test_lines() -> None:
    statistics = Statistics("web")
    assert statistics.describe() == (
        "\n--- web ping statistics ---\n0 packets transmitted, 0 packets received, 0% packet loss\n"
    )
    assert [statistics.count_sent() for _ in range(3)] == [0, 1, 2]
    line = statistics.describe_reply(Reply(0, 64, 1000), "10.0.0.1", 63, 2234)
    assert line == "64 bytes from 10.0.0.1: seq=0 ttl=63 time=1.234 ms\n"
    line = statistics.describe_reply(Reply(0, 64, (1 << 32) - 1), "10.0.0.1", 63, (1 << 32) + 1)
    assert line == "64 bytes from 10.0.0.1: seq=0 ttl=63 time=0.002 ms (DUP!)\n"
    assert statistics.describe() == (
        "\n--- web ping statistics ---\n"
        "3 packets transmitted, 1 packets received, 1 duplicates, 66% packet loss\n"
        "round-trip min/avg/max = 0.002/0.618/1.234 ms\n"
    )


def test_no_time_no_round_trip() -> None:
    statistics = Statistics("web")
    statistics.count_sent()
    assert statistics.describe_reply(Reply(0, 8, None), "::1", 64, 5) == "8 bytes from ::1: seq=0 ttl=64\n"
    assert "round-trip" not in statistics.describe()

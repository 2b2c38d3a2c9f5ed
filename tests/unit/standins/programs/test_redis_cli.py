"""redis-cli's options, protocol and formats."""

from __future__ import annotations

import io

import pytest

from bridgehead.standins.programs.redis import RedisSession, Store
from bridgehead.standins.programs.redis_cli import (
    ErrorReply,
    Options,
    Reply,
    StatusReply,
    WrongUse,
    encode_command,
    format_raw,
    format_reply,
    parse_options,
    read_reply,
)


@pytest.mark.parametrize(
    ("reply", "shown", "raw"),
    [
        (StatusReply("PONG"), "PONG", "PONG"),
        (ErrorReply("ERR unknown command 'x'"), "(error) ERR unknown command 'x'", "ERR unknown command 'x'"),
        (None, "(nil)", ""),
        (3, "(integer) 3", "3"),
        (b'a"\\\n\xff', '"a\\"\\\\\\n\\xff"', 'a"\\\n\ufffd'),
        ([], "(empty array)", ""),
        ([b"a", None, 2], '1) "a"\n2) (nil)\n3) (integer) 2', "a\n\n2"),
        ([[b"a", b"b"], b"c"], '1) 1) "a"\n   2) "b"\n2) "c"', "a\nb\nc"),
    ],
)
def test_replies_are_printed_as_redis_does(reply: Reply, shown: str, raw: str) -> None:
    assert (format_reply(reply), format_raw(reply)) == (shown, raw)


def test_a_long_array_has_aligned_numbers() -> None:
    assert format_reply([b"x"] * 10).splitlines()[8:] == [' 9) "x"', '10) "x"']


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((), Options()),
        (("-h", "web", "-p", "6380", "-n", "1", "get", "-h"), Options("web", 6380, 1, command=("get", "-h"))),
        (("-a", "secret", "--raw", "ping"), Options(password="secret", is_raw=True, command=("ping",))),
        (("--no-raw", "--version"), Options(is_raw=False, shows_version=True)),
    ],
)
def test_options(arguments: tuple[str, ...], options: Options) -> None:
    assert parse_options(arguments) == options


@pytest.mark.parametrize("arguments", [("-x",), ("-h",), ("-p", "x"), ("-p", "70000"), ("-n", "-1")])
def test_wrong_options(arguments: tuple[str, ...]) -> None:
    with pytest.raises(WrongUse):
        parse_options(arguments)


def ask(session: RedisSession, *arguments: str) -> Reply:
    return read_reply(io.BytesIO(session.receive(encode_command(arguments), draining=False)))


def test_it_understands_the_server() -> None:
    session = RedisSession(Store(lambda: 0.0))
    assert ask(session, "PING") == StatusReply("PONG")
    assert ask(session, "SET", "a", "1 2") == StatusReply("OK")
    assert ask(session, "GET", "a") == b"1 2"
    assert ask(session, "GET", "b") is None
    assert ask(session, "MGET", "a", "b") == [b"1 2", None]
    assert ask(session, "DEL", "a", "b") == 1
    assert isinstance(ask(session, "NONSENSE"), ErrorReply)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", EOFError),
        (b"+PO", EOFError),
        (b"$5\r\nab", EOFError),
        (b"*2\r\n:1\r\n", EOFError),
        (b"HTTP/1.1\r\n", ValueError),
        (b"%1\r\n", ValueError),
    ],
)
def test_broken_replies(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        read_reply(io.BytesIO(data))

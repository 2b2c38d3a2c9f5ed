"""`redis-cli` in stand-ins: sends commands to a Redis server and prints the replies as Redis' own does.

Source: the Redis serialization protocol specification (RESP2), redis-cli's manual. Options: -h, -p, -n, -a, --raw,
--no-raw, --version.
"""

from __future__ import annotations

import shlex
import socket
import sys
from collections.abc import Sequence
from typing import BinaryIO, Final, NamedTuple, cast

from bridgehead.standins.standin import Launch

from .stream_server import fail

_PORT: Final = 6379
_CONNECT_SECONDS: Final = 30.0
# Commands whose replies are text for people, printed as it is.
_TEXT_COMMANDS: Final = ("INFO", "CLIENT", "CLUSTER")


class ErrorReply(NamedTuple):
    text: str


class StatusReply(NamedTuple):
    text: str


Reply = bytes | int | None | ErrorReply | StatusReply | list["Reply"]


class WrongUse(Exception):
    """The command line is wrong; the message is one line."""


class Options(NamedTuple):
    host: str = "127.0.0.1"
    port: int = _PORT
    database: int = 0
    password: str = ""
    is_raw: bool | None = None  # None: raw unless standard output is a terminal
    shows_version: bool = False
    command: tuple[str, ...] = ()


def run(launch: Launch) -> int:
    try:
        options = parse_options(launch.argv[1:])
    except WrongUse as error:
        return fail(str(error))
    if options.shows_version:
        sys.stdout.write("redis-cli 7.0.0 (Bridgehead's stand-in)\n")
        return 0
    try:
        with socket.create_connection((options.host, options.port), _CONNECT_SECONDS) as connection:
            connection.settimeout(None)
            with connection.makefile("rwb") as stream:
                return _converse(options, cast(BinaryIO, stream))
    except OSError as error:
        return fail(f"Could not connect to Redis at {options.host}:{options.port}: {error.strerror or error}")
    except (EOFError, ValueError):
        return fail("Error: Server closed the connection")


def _converse(options: Options, stream: BinaryIO) -> int:
    if options.password and isinstance(reply := _ask(stream, ("AUTH", options.password)), ErrorReply):
        sys.stderr.write(f"AUTH failed: {reply.text}\n")
    if options.database:
        _ask(stream, ("SELECT", str(options.database)))
    is_raw = not sys.stdout.isatty() if options.is_raw is None else options.is_raw
    if options.command:
        _print(_ask(stream, options.command), options.command, is_raw=is_raw)
        return 0
    suffix = f"[{options.database}]" if options.database else ""
    prompt = f"{options.host}:{options.port}{suffix}> " if sys.stdin.isatty() else ""
    while True:
        sys.stdout.write(prompt)
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            return 0
        try:
            arguments = tuple(shlex.split(line))
        except ValueError:
            sys.stdout.write("Invalid argument(s)\n")
            continue
        if arguments and arguments[0].lower() in ("quit", "exit"):
            return 0
        if arguments:
            _print(_ask(stream, arguments), arguments, is_raw=is_raw)


def _ask(stream: BinaryIO, arguments: Sequence[str]) -> Reply:
    stream.write(encode_command(arguments))
    stream.flush()
    return read_reply(stream)


def _print(reply: Reply, arguments: Sequence[str], *, is_raw: bool) -> None:
    is_text = is_raw or arguments[0].upper() in _TEXT_COMMANDS
    sys.stdout.write(format_raw(reply) if is_text else format_reply(reply))
    sys.stdout.write("\n")
    sys.stdout.flush()


def parse_options(arguments: Sequence[str]) -> Options:
    """Raises `WrongUse`."""
    options = Options()
    remaining = list(arguments)
    while remaining and remaining[0].startswith("-"):
        word = remaining.pop(0)
        if word in ("--raw", "--no-raw"):
            options = options._replace(is_raw=word == "--raw")
        elif word in ("-v", "--version"):
            options = options._replace(shows_version=True)
        elif word in ("-h", "-p", "-n", "-a") and remaining:
            options = _with_value(options, word, remaining.pop(0))
        else:
            raise WrongUse(f"Unrecognized option or bad number of args for: '{word}'")
    return options._replace(command=tuple(remaining))


def _with_value(options: Options, word: str, value: str) -> Options:
    if word == "-h":
        return options._replace(host=value)
    if word == "-a":
        return options._replace(password=value)
    if not value.isdecimal() or int(value) > 65535:
        raise WrongUse("Invalid server port." if word == "-p" else "Invalid database number.")
    return options._replace(port=int(value)) if word == "-p" else options._replace(database=int(value))


def encode_command(arguments: Sequence[str]) -> bytes:
    parts = [word.encode() for word in arguments]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def read_reply(stream: BinaryIO) -> Reply:
    """Raises EOFError when the stream ends, ValueError for what is no RESP2."""
    line = stream.readline()
    if not line.endswith(b"\r\n"):
        raise EOFError
    kind, text = line[:1], line[1:-2]
    if kind == b"+":
        return StatusReply(text.decode("utf-8", "replace"))
    if kind == b"-":
        return ErrorReply(text.decode("utf-8", "replace"))
    number = int(text)
    if kind == b":":
        return number
    if kind == b"$":
        return None if number < 0 else _read_exactly(stream, number)
    if kind == b"*":
        return None if number < 0 else [read_reply(stream) for _ in range(number)]
    raise ValueError(line)


def _read_exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size + 2)
    if len(data) < size + 2:
        raise EOFError
    return data[:size]


def format_raw(reply: Reply) -> str:
    """A reply as programs read it."""
    match reply:
        case None:
            return ""
        case StatusReply(text) | ErrorReply(text):
            return text
        case bytes():
            return reply.decode("utf-8", "replace")
        case list():
            return "\n".join(map(format_raw, reply))
    return str(reply)


def format_reply(reply: Reply, indent: str = "") -> str:
    """A reply as a terminal shows it."""
    match reply:
        case None:
            return "(nil)"
        case StatusReply(text):
            return text
        case ErrorReply(text):
            return f"(error) {text}"
        case bytes():
            return _quote(reply)
        case []:
            return "(empty array)"
        case list():
            return _format_array(reply, indent)
    return f"(integer) {reply}"


def _format_array(replies: Sequence[Reply], indent: str) -> str:
    width = len(str(len(replies)))
    lines = []
    for number, reply in enumerate(replies, 1):
        label = f"{number:>{width}}) "
        lines.append(("" if number == 1 else indent) + label + format_reply(reply, indent + " " * len(label)))
    return "\n".join(lines)


def _quote(value: bytes) -> str:
    escapes = {0x5C: "\\\\", 0x22: '\\"', 0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x07: "\\a", 0x08: "\\b"}
    shown = (escapes.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}") for byte in value)
    return f'"{"".join(shown)}"'

"""The stand-in for Redis: RESP2 and the commands of tutorials, keys in memory, no persistence, no replication.

Unsupported commands get Redis' error for unknown ones. Source: the Redis serialization protocol specification.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Final

from bridgehead.standins.standin import Launch

from .announcing import announce
from .disclosures import Abilities
from .stream_server import StreamServer, fail

PORT: Final = 6379
_OK: Final = b"+OK\r\n"
_NIL: Final = b"$-1\r\n"
_MAX_LENGTH: Final = 64 << 20  # of an array or a string


class BadProtocol(Exception):
    """The client doesn't use RESP."""


def serve(launch: Launch) -> int:
    port, ignored = parse_arguments(launch.argv[1:])
    store = Store(time.time)
    server = StreamServer()
    try:
        server.listen(port, lambda peer: RedisSession(store))
    except OSError as error:
        return fail(f"Could not create server TCP listening socket *:{port}: bind: {error.strerror}")
    announce(
        launch.setup,
        Abilities(
            role="a small server of the Redis protocol that keeps its keys in memory",
            ports=(f"{port}/TCP",),
            configuration=("/etc/redis", "/usr/local/etc/redis"),
            ignored_arguments=ignored,
        ),
        server.watch,
    )
    return server.serve(launch.started)


def parse_arguments(arguments: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """Return the port and the arguments of redis-server that have no effect here."""
    port = PORT
    ignored = []
    remaining = iter(arguments)
    for word in remaining:
        value = next(remaining, "") if word == "--port" else ""
        if value.isdigit():
            port = int(value)
        else:
            ignored += [word, value] if value else [word]
    return port, tuple(ignored)


def parse_command(data: bytes) -> tuple[list[bytes], int] | None:
    """The parts of the first command and its length in bytes; None while it is incomplete. Raises `BadProtocol`."""
    if not data.startswith(b"*"):
        line, end, _ = data.partition(b"\n")
        if not end:
            return None
        return line.split(), len(line) + 1
    count, at = _read_number(data, 0)
    if at < 0:
        return None
    parts = []
    for _ in range(count):
        if at >= len(data):
            return None
        if data[at : at + 1] != b"$":
            raise BadProtocol(f"expected '$', got '{data[at : at + 1].decode('latin-1')}'")
        length, start = _read_number(data, at)
        if start < 0 or len(data) < start + length + 2:
            return None
        parts.append(data[start : start + length])
        at = start + length + 2
    return parts, at


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """The number in a `*` or `$` line and the offset of the next line (-1 while the line is incomplete)."""
    end = data.find(b"\r\n", at)
    if end < 0:
        if len(data) - at > 32:
            raise BadProtocol("too big count string")
        return 0, -1
    text = data[at + 1 : end]
    if not text.isdigit() or int(text) > _MAX_LENGTH:
        raise BadProtocol("invalid multibulk length" if data[at : at + 1] == b"*" else "invalid bulk length")
    return int(text), end + 2


class Store:
    """Keys and their values (bytes), some with an expiry."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._values: dict[bytes, bytes] = {}
        self._expiry: dict[bytes, float] = {}
        self.started = clock()

    def get(self, key: bytes) -> bytes | None:
        until = self._expiry.get(key)
        if until is not None and until <= self._clock():
            self.delete(key)
        return self._values.get(key)

    def set(self, key: bytes, value: bytes, seconds: float | None = None) -> None:
        self._values[key] = value
        self._expiry.pop(key, None)
        if seconds is not None:
            self._expiry[key] = self._clock() + seconds

    def update(self, key: bytes, value: bytes) -> None:
        """Change the value and keep the expiry."""
        self._values[key] = value

    def delete(self, key: bytes) -> bool:
        self._expiry.pop(key, None)
        return self._values.pop(key, None) is not None

    def expire(self, key: bytes, seconds: float) -> bool:
        if self.get(key) is None:
            return False
        self._expiry[key] = self._clock() + seconds
        return True

    def seconds_left(self, key: bytes) -> int:
        """The result of TTL: seconds, -2 without the key, -1 without an expiry."""
        if self.get(key) is None:
            return -2
        until = self._expiry.get(key)
        return -1 if until is None else round(until - self._clock())

    def names(self) -> list[bytes]:
        return [key for key in list(self._values) if self.get(key) is not None]

    def clear(self) -> None:
        self._values.clear()
        self._expiry.clear()

    @property
    def uptime(self) -> int:
        return int(self._clock() - self.started)


class RedisSession:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._buffer = b""
        self.closing = False
        self.busy = False

    def receive(self, data: bytes, *, draining: bool) -> bytes:
        self._buffer += data
        answers = []
        try:
            while self._buffer and not self.closing:
                parsed = parse_command(self._buffer)
                if parsed is None:
                    break
                parts, used = parsed
                self._buffer = self._buffer[used:]
                if parts:
                    answers.append(self._run(parts[0], parts[1:]))
        except BadProtocol as error:
            answers.append(f"-ERR Protocol error: {error}\r\n".encode())
            self.closing = True
        self.busy = bool(self._buffer)
        self.closing = self.closing or (draining and not self.busy)
        return b"".join(answers)

    def _run(self, name: bytes, args: list[bytes]) -> bytes:
        if name.upper() == b"QUIT":
            self.closing = True
            return _OK
        entry = _COMMANDS.get(name.upper())
        if entry is None:
            listed = "".join(f"'{arg.decode('latin-1')}' " for arg in args[:20])
            return f"-ERR unknown command '{name.decode('latin-1')}', with args beginning with: {listed}\r\n".encode()
        minimum, maximum, command = entry
        if len(args) < minimum or (maximum is not None and len(args) > maximum):
            return f"-ERR wrong number of arguments for '{name.decode('latin-1').lower()}' command\r\n".encode()
        return command(self._store, args)


def _bulk(value: bytes | None) -> bytes:
    return _NIL if value is None else b"$%d\r\n%s\r\n" % (len(value), value)


def _integer(value: int) -> bytes:
    return b":%d\r\n" % value


def _array(values: list[bytes | None]) -> bytes:
    return b"*%d\r\n" % len(values) + b"".join(_bulk(value) for value in values)


def _set(store: Store, args: list[bytes]) -> bytes:
    key, value, *options = args
    seconds: float | None = None
    names = [option.upper() for option in options]
    for unit, scale in ((b"EX", 1.0), (b"PX", 0.001)):
        if unit in names:
            at = names.index(unit) + 1
            if at >= len(options) or not options[at].isdigit():
                return b"-ERR value is not an integer or out of range\r\n"
            seconds = int(options[at]) * scale
    exists = store.get(key) is not None
    if (b"NX" in names and exists) or (b"XX" in names and not exists):
        return _NIL
    store.set(key, value, seconds)
    return _OK


def _add(store: Store, key: bytes, amount: bytes, sign: int = 1) -> bytes:
    try:
        total = int(store.get(key) or b"0") + sign * int(amount)
    except ValueError:
        return b"-ERR value is not an integer or out of range\r\n"
    store.update(key, b"%d" % total)
    return _integer(total)


def _append(store: Store, args: list[bytes]) -> bytes:
    value = (store.get(args[0]) or b"") + args[1]
    store.update(args[0], value)
    return _integer(len(value))


def _mset(store: Store, args: list[bytes]) -> bytes:
    if len(args) % 2:
        return b"-ERR wrong number of arguments for 'mset' command\r\n"
    for key, value in zip(args[::2], args[1::2], strict=True):
        store.set(key, value)
    return _OK


def _keys(store: Store, args: list[bytes]) -> bytes:
    pattern = args[0].decode("latin-1")
    return _array([key for key in store.names() if fnmatchcase(key.decode("latin-1"), pattern)])


def _expire(store: Store, args: list[bytes]) -> bytes:
    try:
        return _integer(store.expire(args[0], int(args[1])))
    except ValueError:
        return b"-ERR value is not an integer or out of range\r\n"


def _flush(store: Store, args: list[bytes]) -> bytes:
    del args
    store.clear()
    return _OK


def _info(store: Store, args: list[bytes]) -> bytes:
    del args
    text = (
        "# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\nserver_name:bridgehead-stand-in\r\n"
        f"tcp_port:{PORT}\r\nuptime_in_seconds:{store.uptime}\r\n\r\n"
        f"# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n# Keyspace\r\ndb0:keys={len(store.names())}\r\n"
    )
    return _bulk(text.encode())


# Name -> minimum and maximum number of arguments (None: no maximum), implementation.
_COMMANDS: dict[bytes, tuple[int, int | None, Callable[[Store, list[bytes]], bytes]]] = {
    b"PING": (0, 1, lambda store, args: _bulk(args[0]) if args else b"+PONG\r\n"),
    b"ECHO": (1, 1, lambda store, args: _bulk(args[0])),
    b"GET": (1, 1, lambda store, args: _bulk(store.get(args[0]))),
    b"SET": (2, 5, _set),
    b"MGET": (1, None, lambda store, args: _array([store.get(key) for key in args])),
    b"MSET": (2, None, _mset),
    b"DEL": (1, None, lambda store, args: _integer(sum(store.delete(key) for key in args))),
    b"EXISTS": (1, None, lambda store, args: _integer(sum(store.get(key) is not None for key in args))),
    b"INCR": (1, 1, lambda store, args: _add(store, args[0], b"1")),
    b"INCRBY": (2, 2, lambda store, args: _add(store, args[0], args[1])),
    b"DECR": (1, 1, lambda store, args: _add(store, args[0], b"1", -1)),
    b"DECRBY": (2, 2, lambda store, args: _add(store, args[0], args[1], -1)),
    b"APPEND": (2, 2, _append),
    b"STRLEN": (1, 1, lambda store, args: _integer(len(store.get(args[0]) or b""))),
    b"KEYS": (1, 1, _keys),
    b"EXPIRE": (2, 2, _expire),
    b"TTL": (1, 1, lambda store, args: _integer(store.seconds_left(args[0]))),
    b"TYPE": (1, 1, lambda store, args: b"+none\r\n" if store.get(args[0]) is None else b"+string\r\n"),
    b"DBSIZE": (0, 0, lambda store, args: _integer(len(store.names()))),
    b"FLUSHALL": (0, 1, _flush),
    b"FLUSHDB": (0, 1, _flush),
    b"INFO": (0, None, _info),
    b"SELECT": (1, 1, lambda store, args: _OK if args[0] == b"0" else b"-ERR DB index is out of range\r\n"),
    b"COMMAND": (0, None, lambda store, args: _array([])),
    b"CLIENT": (1, None, lambda store, args: _OK),
    b"CONFIG": (1, None, lambda store, args: _array([])),
}

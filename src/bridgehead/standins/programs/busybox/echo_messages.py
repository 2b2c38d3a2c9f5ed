"""Options, messages and lines of output of BusyBox's ping.

Pure: no I/O, no clock, no randomness. Source: BusyBox' networking/ping.c, RFC 792 and 4443.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from .options import BadNumber, BadOption, parse_number, parse_options

_LETTERS: Final = "qv46I:c:s:t:w:W:i:Ap:"
_HEADER: Final = struct.Struct("!BBHHH")
_STAMP: Final = struct.Struct("!I")  # microseconds, in the first data bytes
_ECHO_REQUEST: Final = {4: 8, 6: 128}
_ECHO_REPLY: Final = {4: 0, 6: 129}
_REMEMBERED: Final = 1024  # sequence numbers of which duplicates are found


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The command line. `count` 0: without end; `wait`, `deadline` (0: none) and `interval` in seconds; `family` 4, 6,
    or 0 for either."""

    host: str
    count: int = 0
    size: int = 56
    ttl: int = 0
    wait: int = 10
    deadline: int = 0
    interval: float = 1.0
    source: str = ""
    pattern: int = 0
    family: int = 0
    is_quiet: bool = False
    is_adaptive: bool = False


class Reply(NamedTuple):
    """An echo reply: its length with the header, and the time of the request, None without room for it."""

    sequence: int
    length: int
    sent_at: int | None


def parse_arguments(argv: Sequence[str]) -> Options:
    """Raises `BadOption` ("" if only the usage is printed) and `BadNumber`."""
    parsed = parse_options(argv, _LETTERS, {})
    if len(parsed.operands) != 1:
        raise BadOption("")
    last = dict(parsed.options)
    numbers = {
        field: parse_number(last[letter], lowest, highest)
        for letter, field, lowest, highest in (
            ("c", "count", 0, 0xFFFFFFFF),
            ("s", "size", 0, 0xFFFF - 28),
            ("t", "ttl", 0, 0xFFFFFFFF),
            ("W", "wait", 0, 0xFFFFFFFF),
            ("w", "deadline", 0, 0x7FFFFFFF),
        )
        if letter in last
    }
    families = [int(letter) for letter, _ in parsed.options if letter in "46"]
    return Options(
        host=parsed.operands[0],
        source=last.get("I", ""),
        interval=_parse_seconds(last.get("i", "1")),
        pattern=_parse_byte(last.get("p", "0")),
        family=families[-1] if families else 0,
        is_quiet="q" in last,
        is_adaptive="A" in last,
        **numbers,
    )


def _parse_seconds(text: str) -> float:
    whole, _, fraction = text.partition(".")
    if not (whole + fraction).isascii() or not (whole + fraction).isdigit() or len(text) > 10:
        raise BadNumber(f"invalid number '{text}'")
    return float(f"{whole or 0}.{fraction or 0}")


def _parse_byte(text: str) -> int:
    if not text or len(text) > 2 or any(each not in "0123456789abcdefABCDEF" for each in text):
        raise BadNumber(f"invalid number '{text}'")
    return int(text, 16)


def encode_request(options: Options, version: int, id: int, sequence: int, now: int) -> bytes:
    """`version` of IP is 4 or 6; `now` in microseconds, of which 32 bits are sent."""
    body = bytes([options.pattern]) * options.size
    if options.size >= _STAMP.size:
        body = _STAMP.pack(now & 0xFFFFFFFF) + body[_STAMP.size :]
    checksum = 0
    if version == 4:  # the kernel computes that of ICMPv6
        checksum = compute_checksum(_HEADER.pack(_ECHO_REQUEST[4], 0, 0, id, sequence) + body)
    return _HEADER.pack(_ECHO_REQUEST[version], 0, checksum, id, sequence) + body


def compute_checksum(message: bytes) -> int:
    """RFC 1071."""
    if len(message) % 2:
        message += b"\0"
    total: int = sum(struct.unpack(f"!{len(message) // 2}H", message))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def decode_reply(message: bytes, version: int, id: int, size: int) -> Reply | None:
    """The reply to a request of this process with `size` bytes of data; None for any other message."""
    if len(message) < _HEADER.size + size:
        return None
    kind, _, _, found, sequence = _HEADER.unpack_from(message)
    if kind != _ECHO_REPLY[version] or found != id:
        return None
    has_stamp = len(message) >= _HEADER.size + _STAMP.size
    return Reply(sequence, len(message), _STAMP.unpack_from(message, _HEADER.size)[0] if has_stamp else None)


class Statistics:
    """Counts of requests and replies; times in microseconds."""

    def __init__(self, host: str) -> None:
        self._host = host
        self.sent = 0
        self.received = 0
        self._repeated = 0
        self._seen: set[int] = set()
        self._total = 0
        self._shortest: int | None = None
        self.longest = 0

    def count_sent(self) -> int:
        """The sequence number of the next request."""
        sequence = self.sent & 0xFFFF
        self._seen.discard(sequence % _REMEMBERED)
        self.sent += 1
        return sequence

    def describe_reply(self, reply: Reply, source: str, ttl: int, now: int) -> str:
        """Count a reply; its line."""
        time = ""
        if reply.sent_at is not None:
            elapsed = (now - reply.sent_at) & 0xFFFFFFFF
            self._total += elapsed
            self._shortest = elapsed if self._shortest is None else min(self._shortest, elapsed)
            self.longest = max(self.longest, elapsed)
            time = f" time={_format(elapsed)} ms"
        duplicate = " (DUP!)" if reply.sequence % _REMEMBERED in self._seen else ""
        if duplicate:
            self._repeated += 1
        else:
            self._seen.add(reply.sequence % _REMEMBERED)
            self.received += 1
        return f"{reply.length} bytes from {source}: seq={reply.sequence} ttl={ttl}{time}{duplicate}\n"

    def describe(self) -> str:
        """The lines at the end."""
        lost = (self.sent - self.received) * 100 // self.sent if self.sent else 0
        repeated = f"{self._repeated} duplicates, " if self._repeated else ""
        lines = [
            f"\n--- {self._host} ping statistics ---",
            f"{self.sent} packets transmitted, {self.received} packets received, {repeated}{lost}% packet loss",
        ]
        if self._shortest is not None:
            times = (self._shortest, self._total // (self.received + self._repeated), self.longest)
            lines.append(f"round-trip min/avg/max = {'/'.join(map(_format, times))} ms")
        return "".join(f"{line}\n" for line in lines)


def _format(microseconds: int) -> str:
    return f"{microseconds // 1000}.{microseconds % 1000:03}"

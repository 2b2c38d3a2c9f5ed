"""Timestamps and durations.

Pure: no I/O, no clock, no randomness. Source: CEL language definition "Timestamps", "Durations", cel-go `common/types`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any

from bridgehead.apiserver.cel.costs import PARSING
from bridgehead.apiserver.cel.declarations import Overload, overload
from bridgehead.apiserver.cel.errors import EvaluationError
from bridgehead.apiserver.cel.values import SECOND, Duration, Timestamp

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62135596800, 253402300799  # the years 1 to 9999
_MOST_SECONDS = (2**63 - 1) // SECOND
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_UNITS = {
    "h": 3600 * SECOND,
    "m": 60 * SECOND,
    "s": SECOND,
    "ms": 10**6,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ns": 1,
}
_PART = re.compile(r"(\d*)(?:\.(\d*))?(h|ms|us|µs|μs|ns|m|s)", re.ASCII)


def check_timestamp(nanoseconds: int, offset: int = 0) -> Timestamp:
    """Return a timestamp. Raises EvaluationError outside of the years 1 to 9999."""
    if not _FIRST * SECOND <= nanoseconds < (_LAST + 1) * SECOND:
        raise EvaluationError("timestamp overflow")
    timestamp = Timestamp(nanoseconds)
    if offset:
        timestamp.offset = offset
    return timestamp


def check_duration(nanoseconds: int) -> Duration:
    """Return a duration. Raises EvaluationError if 64 bits do not hold it."""
    if -(2**63) <= nanoseconds < 2**63:
        return Duration(nanoseconds)
    raise EvaluationError("duration overflow")


def parse_timestamp(text: str) -> Timestamp:
    """Return the timestamp of RFC 3339 text. Raises EvaluationError."""
    match = _TIME.fullmatch(text)
    problem = f'parsing time "{text[:100]}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text[:100]}" as "2006"'
    if match is None:
        raise EvaluationError(problem)
    try:
        moment = datetime.fromisoformat(match[1] + match[3].replace("Z", "+00:00"))
        seconds = (moment - _EPOCH) // timedelta(seconds=1)
    except (ValueError, OverflowError):
        raise EvaluationError(problem) from None
    offset = moment.utcoffset() or timedelta()
    return check_timestamp(seconds * SECOND + int((match[2] or "0").ljust(9, "0")), offset // timedelta(seconds=1))


def parse_duration(text: str) -> Duration:
    """Return the duration of Go's notation, `1h30m` or `-1.5s`. Raises EvaluationError."""
    body = text.lstrip("+-") if len(text) - len(text.lstrip("+-")) <= 1 else ""
    if body == "0":
        return Duration(0)
    total, position = 0, 0
    while position < len(body):
        match = _PART.match(body, position)
        if match is None or not (match[1] or match[2]) or len(match[0]) > 40:
            break
        unit = _UNITS[match[3]]
        total += int(match[1] or "0") * unit
        if match[2]:
            total += int(match[2]) * unit // 10 ** len(match[2])
        position = match.end()
    if not body or position < len(body):
        raise EvaluationError(f'time: invalid duration "{text[:100]}"')
    return check_duration(-total if text[0] == "-" else total)


def format_timestamp(value: Timestamp) -> str:
    """Return RFC 3339 text, with the digits of a fraction that are needed."""
    seconds, nanoseconds = divmod(int(value), SECOND)
    text = _local(seconds + value.offset).strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    fraction = f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
    if not value.offset:
        return f"{text}{fraction}Z"
    hours, minutes = divmod(abs(value.offset) // 60, 60)
    return f"{text}{fraction}{'-' if value.offset < 0 else '+'}{hours:02}:{minutes:02}"


def _local(seconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        raise EvaluationError("timestamp overflow") from None


def format_duration(value: int) -> str:
    """Return a duration in seconds: `90s`, `1.5s`."""
    seconds, nanoseconds = divmod(abs(int(value)), SECOND)
    fraction = f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
    return f"{'-' if value < 0 else ''}{seconds}{fraction}s"


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    """Return the time zone of a name such as Europe/Berlin, or of an offset such as -08:00. Raises EvaluationError."""
    offset = re.fullmatch(r"([+-]?)(\d\d):(\d\d)", name, re.ASCII)
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3])
        if minutes < 24 * 60:
            return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    if name in ("", "UTC"):
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise EvaluationError(f"unknown time zone {name[:100]}") from None


def _part(read: Callable[[datetime], int]) -> tuple[Overload, ...]:
    def run(value: Timestamp, zone: str | None = None) -> int:
        try:
            there = timezone(timedelta(seconds=value.offset)) if zone is None else _zone(zone)
            return read((_EPOCH + timedelta(microseconds=int(value) // 1000)).astimezone(there))
        except OverflowError:
            raise EvaluationError("timestamp overflow") from None

    return overload("timestamp.() -> int", run, PARSING), overload("timestamp.(string) -> int", run, PARSING)


def _total(unit: int) -> Callable[[Any], int]:
    def run(value: int) -> int:
        whole = abs(int(value)) // unit
        return whole if value >= 0 else -whole

    return run


def _milliseconds(value: int) -> int:
    return _total(10**6)(value)


FUNCTIONS: Mapping[str, tuple[Overload, ...]] = {
    "getFullYear": _part(lambda moment: moment.year),
    "getMonth": _part(lambda moment: moment.month - 1),
    "getDate": _part(lambda moment: moment.day),
    "getDayOfMonth": _part(lambda moment: moment.day - 1),
    "getDayOfWeek": _part(lambda moment: moment.isoweekday() % 7),
    "getDayOfYear": _part(lambda moment: moment.timetuple().tm_yday - 1),
    "getHours": (*_part(lambda moment: moment.hour), overload("duration.() -> int", _total(3600 * SECOND))),
    "getMinutes": (*_part(lambda moment: moment.minute), overload("duration.() -> int", _total(60 * SECOND))),
    "getSeconds": (*_part(lambda moment: moment.second), overload("duration.() -> int", _total(SECOND))),
    "getMilliseconds": (
        *_part(lambda moment: moment.microsecond // 1000),
        overload("duration.() -> int", _milliseconds),
    ),
}

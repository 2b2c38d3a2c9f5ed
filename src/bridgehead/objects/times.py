"""Timestamps of the API (RFC 3339 in UTC: `Time` in seconds, `MicroTime` in microseconds) and Go's durations.

Pure: no I/O, no clock, no randomness. Times are arguments, in seconds since the epoch.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_EPOCH, _SECOND = datetime.fromtimestamp(0, UTC), timedelta(seconds=1)
_FRACTION = re.compile(r"[.,]([0-9]+)")


def format_time(epoch_seconds: float) -> str:
    """Format a `metav1.Time`: `2026-11-21T02:35:22Z`."""
    return _format_second(int(epoch_seconds))


@lru_cache(maxsize=8)  # an API server under load formats the same second thousands of times
def _format_second(second: int) -> str:
    return _format(second, "seconds")


def format_micro_time(epoch_seconds: float) -> str:
    """Format a `metav1.MicroTime`: `2026-11-21T02:35:22.000123Z`. Clients require all six digits."""
    return _format(epoch_seconds, "microseconds")


def _format(epoch_seconds: float, precision: str) -> str:
    # Not strftime, whose years before 1000 have fewer than four digits.
    return datetime.fromtimestamp(epoch_seconds, UTC).isoformat(timespec=precision).removesuffix("+00:00") + "Z"


def parse_time(text: str) -> float:
    """Return the epoch seconds of a `Time` or `MicroTime`. Raises ValueError for other text."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"timestamp {text!r} has no time zone")
    return moment.timestamp()


def parse_instant(text: str) -> int:
    """Return the nanoseconds since the epoch of an RFC 3339 time, of which Go reads nine digits. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"timestamp {text!r} has no time zone")
    fraction = _FRACTION.search(text)
    seconds = (moment.replace(microsecond=0) - _EPOCH) // _SECOND
    return seconds * 10**9 + (int(fraction[1][:9].ljust(9, "0")) if fraction else 0)


def parse_duration(text: str) -> float:
    """Return the seconds of a Go duration such as 1m30s. Raises ValueError."""
    if text == "0":
        return 0.0
    parts = re.findall(r"([0-9]+(?:\.[0-9]+)?)(h|ms|us|µs|ns|m|s)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration such as 30s")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)

"""Timestamps as the API writes them: RFC 3339 in UTC, seconds for Time and microseconds for MicroTime; Go's durations.

Functions take the moment as an argument: seconds since the epoch, from whoever owns the clock.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def format_time(epoch_seconds: float) -> str:
    """`metav1.Time`: `2026-11-21T02:35:22Z`."""
    return datetime.fromtimestamp(int(epoch_seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(epoch_seconds: float) -> str:
    """`metav1.MicroTime`: `2026-11-21T02:35:22.000123Z`; always six digits, as clients require."""
    return datetime.fromtimestamp(epoch_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> float:
    """Seconds since the epoch of either form. Raises ValueError when `text` is neither."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"timestamp {text!r} has no time zone")
    return moment.timestamp()


def parse_duration(text: str) -> float:
    """Seconds of a Go duration such as 1m30s. Raises ValueError."""
    if text == "0":
        return 0.0
    parts = re.findall(r"([0-9]+(?:\.[0-9]+)?)(h|ms|us|µs|ns|m|s)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration such as 30s")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)

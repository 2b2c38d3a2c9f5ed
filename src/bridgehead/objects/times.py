"""Timestamps as the API writes them: RFC 3339 in UTC, seconds for Time and microseconds for MicroTime.

Functions take the moment as an argument: seconds since the epoch, from whoever owns the clock.
"""

from __future__ import annotations

from datetime import UTC, datetime


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

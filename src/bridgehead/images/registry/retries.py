"""Which answers of a registry are worth another try, and when.

Pure: no I/O, no clock, no randomness. Source: RFC 9110, section 10.2.3 (Retry-After), RFC 6585 (429).
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Final

from bridgehead.backoff import delay_after

ATTEMPTS: Final = 6
_RETRIED: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_INITIAL_SECONDS: Final = 0.2
_LONGEST_SECONDS: Final = 5.0
_LONGEST_WISH_SECONDS: Final = 60.0  # a registry may ask for hours; then the kubelet's back-off is the better place


def is_retried(status: int) -> bool:
    return status in _RETRIED


def delay_seconds(failures: int, retry_after: str, now: float) -> float | None:
    """Return the delay after `failures` attempts, None for no further one. `now`: seconds since the epoch."""
    if failures >= ATTEMPTS:
        return None
    delay = delay_after(failures, _INITIAL_SECONDS, _LONGEST_SECONDS)
    wish = _parse_retry_after(retry_after.strip(), now)
    if wish is None:
        return delay
    return None if wish > _LONGEST_WISH_SECONDS else max(delay, wish)


def _parse_retry_after(text: str, now: float) -> float | None:
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError):
        return None

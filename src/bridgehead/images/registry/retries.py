"""Answers of a registry that are worth another try, and the time until it.

Pure: no I/O, no clock, no randomness. Source: RFC 9110, section 10.2.3 (Retry-After), RFC 6585 (429).
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Final

from bridgehead.backoff import delay_after
from bridgehead.images.errors import PullFailed

ATTEMPTS: Final = 6
RESTARTS: Final = 5  # of one download, from its first byte
_RETRIED: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_INITIAL_SECONDS: Final = 0.2
_LONGEST_SECONDS: Final = 5.0
_SILENT_ATTEMPTS: Final = 2  # a server that is silent for half a minute is not asked six times
PACE_SECONDS: Final = 60.0
PACE_BYTES: Final = 64 << 10  # a modem brings more in a minute
_LONGEST_WISH_SECONDS: Final = 60.0  # a registry may ask for hours; then the kubelet's back-off is the better place


def is_retried(status: int) -> bool:
    return status in _RETRIED


def delay_seconds(failures: int, retry_after: str, now: float, *, is_silent: bool = False) -> float | None:
    """Return the delay after `failures` attempts, None for no further one. `now`: seconds since the epoch.

    `is_silent`: the server did not answer at all.
    """
    if failures >= (_SILENT_ATTEMPTS if is_silent else ATTEMPTS):
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


class Pace:
    """Measures whether a download goes on. Times are seconds on any clock that does not go back.

    A server that sends a byte a second is never silent, so containerd's bound (five minutes without progress) would let
    such a pull go on for years. Here each minute has to bring 64 KiB.
    """

    def __init__(self, now: float) -> None:
        self._since = now
        self._size = 0

    def count(self, size: int, now: float) -> None:
        """Count `size` new bytes. Raises `PullFailed` when too few came in the last period."""
        self._size += size
        if now - self._since < PACE_SECONDS:
            return
        if self._size < PACE_BYTES:
            raise PullFailed(f"the download is too slow: {self._size} bytes in {now - self._since:.0f} s")
        self._since, self._size = now, 0

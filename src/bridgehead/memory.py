"""Returns memory that is no longer needed to the system (malloc_trim).

Called by the proxy when everything is programmed and after big transactions, and by the API server after much was sent.
"""

from __future__ import annotations

import asyncio
import ctypes


def give_back() -> None:
    """What the C library holds free: libnftables and the first lists leave more than a MiB, far more in big clusters.

    glibc keeps it because something that lives lies above. Does nothing where the C library is another one.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except AttributeError:
        return
    trim(ctypes.c_size_t(0))


class Trimmer:
    """Calls `give_back` once, a moment after much has been freed. Used on the event loop."""

    def __init__(self, least_bytes: int = 32 * 1024 * 1024, seconds: float = 2.0) -> None:
        self._least_bytes = least_bytes
        self._seconds = seconds
        self._freed = 0
        self._timer: asyncio.TimerHandle | None = None

    def on_freed(self, size: int) -> None:
        self._freed += size
        if self._freed >= self._least_bytes and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._trim)

    def _trim(self) -> None:
        self._timer, self._freed = None, 0
        give_back()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

"""Tables of nf_tables that a speaker fills: made when they are needed, and anew after an error.

The kernel may reject a change for a moment (memory, a full send buffer). A kernel that lacks what the rules use is
asked again, too, since its modules may be loaded later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from bridgehead.backoff import Backoff
from bridgehead.network.closable import Closable

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Closable)

_DELAYS: Final = (1.0, 300.0)  # seconds: first and longest before another attempt


class KernelTables(Generic[T]):
    """Tables that `make` returns and `fill` brings up to date. After an OSError of `make` or `fill`, they are closed.

    `consequence`: what users see without the tables, for the log, which has one warning until they are there again.
    """

    def __init__(self, make: Callable[[], T], fill: Callable[[T], None], consequence: str) -> None:
        self._make = make
        self._fill = fill
        self._consequence = consequence
        self._tables: T | None = None
        self._is_running = self._is_needed = False
        self._backoff = Backoff(*_DELAYS)
        self._retry: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Keep the tables until cancelled, and remove them at the end."""
        self._is_running = True
        self._try()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._is_running = False
            if self._retry is not None:
                self._retry.cancel()
            self._close()

    def update(self, *, is_needed: bool) -> None:
        """Bring the tables up to date, or make them if they are needed."""
        self._is_needed = is_needed
        if self._retry is None:
            self._try()

    def _try(self) -> None:
        self._retry = None
        if not self._is_running or (self._tables is None and not self._is_needed):
            return
        try:
            if self._tables is None:
                self._tables = self._make()
            self._fill(self._tables)
        except OSError as error:
            if not self._backoff.failures:
                log.warning("%s: %s", self._consequence, error)
            self._close()
            self._retry = asyncio.get_running_loop().call_later(self._backoff.next(), self._try)
            return
        if self._backoff.failures:
            log.info("no longer: %s", self._consequence)
            self._backoff.reset()

    def _close(self) -> None:
        if self._tables is not None:
            self._tables.close()
            self._tables = None

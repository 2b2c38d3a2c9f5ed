"""The sockets on which processes of the node listen, kept up to date while a Service lists an address of the node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from bridgehead.network.listening_ports import Listener

CHECK_SECONDS: Final = 5.0

ListListeners = Callable[[], frozenset[Listener]]


class NodeListeners:
    """Use: `read` when the sockets may count, and `run`, which calls `on_change` when a later look finds others.

    `list_listeners` blocks; `is_wanted` returns whether anybody needs the answer.
    """

    def __init__(
        self, list_listeners: ListListeners, is_wanted: Callable[[], bool], on_change: Callable[[], None]
    ) -> None:
        self._list = list_listeners
        self._is_wanted = is_wanted
        self._on_change = on_change
        self._last: frozenset[Listener] = frozenset()

    def read(self) -> frozenset[Listener]:
        """Return the sockets; none while nobody needs them. Blocks for a few file reads."""
        self._last = self._list() if self._is_wanted() else frozenset()
        return self._last

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if self._is_wanted() and await asyncio.to_thread(self._list) != self._last:
                self._on_change()

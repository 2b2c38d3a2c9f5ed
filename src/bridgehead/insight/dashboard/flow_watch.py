"""Connections by Service: counted again and again while a page shows them, and not at all while none does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from .history import History

SECONDS = 1.5  # from the end of a count to the next
LARGEST_SHARE = 0.15  # of the time, for counting: the pause grows with the time that a count takes
MOST_PATHS = 2_000  # of one message, those with new connections first


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """Connections of one moment.

    `paths`: identities of connections by Service (NAMESPACE/NAME) and address of the backend. `ended`: those of them
    that have ended, which the kernel remembers for a while. `failing`: by Service, those without an answer. `unseen`:
    why some or all are missing; "" if none are.
    """

    paths: Mapping[tuple[str, str], frozenset[int]] = {}
    failing: Mapping[str, frozenset[int]] = {}
    ended: frozenset[int] = frozenset()
    unseen: str = ""


class Page(Protocol):
    def offer_flows(self, message: bytes) -> None: ...


def message_of(before: Count | None, count: Count, at: float) -> bytes:
    """Return the message for the pages: `paths` as [Service, backend, open, new, known].

    New connections are those since the previous count; known ones include those that have ended.
    """
    rows = []
    open_: dict[str, int] = {}
    for (service, backend), found in count.paths.items():
        known = before.paths.get((service, backend), frozenset()) if before is not None else found
        alive, new = len(found - count.ended), len(found - known)
        rows.append((service, backend, alive, new, len(found)))
        open_[service] = open_.get(service, 0) + alive
    rows.sort(key=lambda row: (-row[3], -row[2], row[0], row[1]))
    return msgspec.json.encode(
        {"type": "flows", "at": at, "open": open_, "paths": rows[:MOST_PATHS], "unseen": count.unseen}
    )


def rates_of(before: Count, count: Count, seconds: float) -> tuple[dict[str, float], dict[str, float]]:
    """Return, by Service, new connections per second, and those per second of which none was answered so far.

    Every Service that has or had connections has a rate.
    """
    new = {service: 0.0 for service, _ in (*before.paths, *count.paths)}
    for path, found in count.paths.items():
        new[path[0]] += len(found - before.paths.get(path, frozenset())) / seconds
    nothing: frozenset[int] = frozenset()
    failing = {
        service: len(count.failing.get(service, nothing) - before.failing.get(service, nothing)) / seconds
        for service in new
    }
    return new, failing


class FlowWatch:
    """`count` reads the connections of all nodes; its exceptions are its own to report, in `unseen`."""

    def __init__(
        self,
        count: Callable[[], Awaitable[Count]],
        history: History,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._count = count
        self._history = history
        self._clock = clock
        self._pages: dict[Page, None] = {}
        self._wanted = asyncio.Event()

    @property
    def pages(self) -> Sequence[Page]:
        return tuple(self._pages)

    def look(self, page: Page, is_looking: bool) -> None:
        """Send counts to a page from now on, or no longer."""
        if is_looking:
            self._pages[page] = None
            self._wanted.set()
        else:
            self._pages.pop(page, None)
            if not self._pages:
                self._wanted.clear()

    async def run(self) -> None:
        """Count while a page looks, until cancelled."""
        before: Count | None = None
        since = 0.0
        while True:
            if not self._wanted.is_set():
                before = None
                await self._wanted.wait()
            begun = time.monotonic()
            count = await self._count()
            took = time.monotonic() - begun
            at = self._clock()
            if before is not None and at > since:
                for series, rates in zip(("connections", "errors"), rates_of(before, count, at - since), strict=True):
                    for service, rate in rates.items():
                        self._history.record(f"{series} {service}", at, rate)
            message = message_of(before, count, at)
            for page in self.pages:
                page.offer_flows(message)
            before, since = count, at
            await asyncio.sleep(max(SECONDS, took / LARGEST_SHARE))

"""The content of etcd below a prefix: read once, then followed by one watch that begins again after every failure.

It is read as of an earlier revision, and the changes since then are replayed. A server that has just started thus knows
nearly the same history as one that has run for a while, and clients go on with their watches.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

from bridgehead.backoff import Backoff
from bridgehead.storage.records import Record

from .client.errors import Compacted, EtcdError
from .client.etcd_client import EtcdClient
from .client.records import Event
from .client.requests import prefix_end
from .client.watching import EtcdWatch

log = logging.getLogger(__name__)

# Changes that a server replays at its start: about a second of processor time.
_REPLAYED = 5_000
_ATTEMPTS = 5


class Entry(NamedTuple):
    """A key of etcd, its value, and the revision of its last change."""

    key: bytes
    value: bytes
    revision: int


class Observer(Protocol):
    """The store that follows. Its changes become visible at once."""

    @property
    def revision(self) -> int: ...

    def decode(self, entry: Entry) -> Record | None:
        """Return the object of an entry; None for what is no object."""
        ...

    def begin(self, records: Sequence[Record], revision: int) -> None:
        """Fill the empty store with all objects as of a revision."""
        ...

    def exchange(self, entries: Sequence[Entry], revision: int) -> None:
        """Bring the store to what etcd has at a revision, when the changes in between are lost."""
        ...

    def show(self, events: Sequence[Event], revision: int) -> None:
        """Make events visible, which are all that happened up to a revision."""
        ...


class Follower:
    """Follows the keys below `prefix` for `observer`. Those below `first` are read first."""

    def __init__(self, client: EtcdClient, prefix: bytes, first: bytes, observer: Observer) -> None:
        self.failure: str | None = None
        self._client = client
        self._prefix = prefix
        self._first = first
        self._observer = observer
        self._watch: EtcdWatch | None = None

    async def load(self) -> None:
        """Read everything as of an earlier revision, from which `run` goes on. Raises `EtcdError`."""
        newest = (await self._client.range(self._prefix, limit=1, keys_only=True)).revision
        revision = max(1, newest - _REPLAYED)
        for attempt in range(_ATTEMPTS):
            try:
                records = [record async for record in self._records_at(revision)]
            except Compacted:
                if attempt == _ATTEMPTS - 1:
                    raise
                revision = await self._oldest_after(revision)
            else:
                self._observer.begin(records, revision)
                return

    async def _records_at(self, revision: int) -> AsyncIterator[Record]:
        for prefix in (self._first, self._prefix):
            async for entry in self._entries_at(prefix, revision):
                if prefix == self._first or not entry.key.startswith(self._first):
                    record = self._observer.decode(entry)
                    if record is not None:
                        yield record

    def entries(self) -> AsyncIterator[Entry]:
        """Yield all entries as of one moment. Raises `EtcdError`."""
        return self._entries_at(self._prefix, 0)

    async def _entries_at(self, prefix: bytes, revision: int) -> AsyncIterator[Entry]:
        async for page in self._client.pages(prefix, prefix_end(prefix), revision=revision):
            for kv in page.kvs:
                yield Entry(kv.key, kv.value, kv.mod_revision)

    async def _oldest_after(self, revision: int) -> int:
        """Return the oldest revision that etcd still has. Only watches get it."""
        watch = await self._client.watch(self._prefix, prefix_end(self._prefix), start_revision=revision)
        try:
            await anext(watch)
        except Compacted as error:
            return error.compact_revision
        finally:
            await watch.close()
        return revision

    # --- following

    async def run(self) -> None:
        """Follow until cancelled."""
        backoff = Backoff(0.05, 1.0, jitter=random.random)
        while True:
            try:
                start = self._observer.revision + 1
                end = prefix_end(self._prefix)
                # Without etcd's own notifications of progress, which older releases may send before earlier changes.
                self._watch = await self._client.watch(self._prefix, end, start_revision=start, progress_notify=False)
                self._succeeded()
                async for batch in self._watch:
                    backoff.reset()
                    # The revision of a batch with events may be that of later ones.
                    revision = batch.revision if batch.is_progress else batch.events[-1].kv.mod_revision
                    self._observer.show(batch.events, revision)
            except Compacted:
                await self._read_again()
            except EtcdError as error:
                self._failed(error)
            finally:
                if self._watch is not None:
                    await self._watch.close()
                    self._watch = None
            await asyncio.sleep(backoff.next())

    async def _read_again(self) -> None:
        """Read everything again, because changes are lost that this server has not seen."""
        log.warning("etcd has compacted changes that this server has not seen yet: reading all objects again")
        try:
            newest = (await self._client.range(self._prefix, limit=1, keys_only=True)).revision
            entries = [entry async for entry in self._entries_at(self._prefix, newest)]
        except EtcdError as error:
            self._failed(error)
            return
        self._observer.exchange(entries, newest)
        self._succeeded()

    async def request_progress(self) -> None:
        """Ask for the revision up to which the watch has shown everything; `show` gets it."""
        if self._watch is not None:
            await self._watch.request_progress()

    def _failed(self, error: EtcdError) -> None:
        if self.failure is None:
            log.warning("cannot follow etcd: %s", error)
        self.failure = str(error)

    def _succeeded(self) -> None:
        if self.failure is not None:
            log.info("following etcd again")
        self.failure = None

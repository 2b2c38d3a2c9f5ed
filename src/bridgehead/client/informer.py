"""A local copy of one kind that stays right by itself: list, then watch, and begin again where that broke off.

Whatever goes wrong, the copy is kept: a broken watch is resumed from the last resourceVersion seen (bookmarks
included), a history that no longer reaches back (410) leads to a new list whose difference the handlers are told.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from bridgehead.objects.kinds import Kind
from bridgehead.objects.meta import Object, ObjectKey

from .codec import ListResult, WatchEvent
from .errors import ClientError, Gone, Unreachable
from .store import Handler, IndexFunction, ObjectStore

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)

FIRST_DELAY = 0.1
LONGEST_DELAY = 10.0
HEALTHY_SECONDS = 5.0  # a watch that lived this long without an event did not fail


class Source(Protocol):
    """What an informer needs of `ApiClient`."""

    async def list(
        self, kind: Kind[T], namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> ListResult[T]: ...

    def watch(
        self,
        kind: Kind[T],
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        bookmarks: bool = False,
    ) -> AsyncGenerator[WatchEvent[T], None]: ...


class Informer(Generic[T]):
    """Objects of one kind, all or those selected. Handlers and indexes may be added at any time.

    `jitter` gives numbers from 0 to 1 that spread the retries of many informers.
    """

    def __init__(
        self,
        client: Source,
        kind: Kind[T],
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        *,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.kind = kind
        self._client = client
        self._selection = (namespace, label_selector, field_selector)
        self._store: ObjectStore[T] = ObjectStore(kind.plural, indexes)
        self._resource_version = ""
        self._must_list = True
        self._synced = asyncio.Event()
        self._backoff = _Backoff(jitter)
        self._last_error = ""

    @property
    def resource_version(self) -> str:
        """Up to which version of the API's data this copy is known to be complete; "" before the first list."""
        return self._resource_version

    @property
    def is_synced(self) -> bool:
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until the first list is here and its handlers have been called."""
        await self._synced.wait()

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        self._store.add_index(name, function)

    def on_change(self, handler: Handler[T]) -> None:
        """Call `handler(old, new)` for every change from now on, and now as `(None, obj)` for what is there.

        Handlers must not block or wait. What one raises is logged and stops nobody else.
        """
        self._store.on_change(handler)

    def get(self, key: ObjectKey) -> T | None:
        return self._store.get(key)

    def keys(self) -> Iterable[ObjectKey]:
        return self._store.keys()

    def items(self) -> Iterable[T]:
        return self._store.items()

    def by_index(self, index: str, value: str) -> list[T]:
        """The objects for which the index function gives `value`. Raises KeyError without such an index."""
        return self._store.by_index(index, value)

    def __len__(self) -> int:
        return len(self._store)

    async def run(self) -> None:
        """Keep the copy up to date until cancelled."""
        while True:
            try:
                if self._must_list:
                    await self._list()
                await self._watch()
            except Gone as error:
                log.info("%s: %s; listing again", self.kind.plural, error)
                self._must_list = True
            except Unreachable as error:  # the client has said so already, once for all informers
                log.debug("%s: %s", self.kind.plural, error)
            except ClientError as error:
                self._report(str(error))
                self._must_list = True
            except Exception:  # a bug in one place must not blind everybody who reads this copy
                log.exception("%s: listing again", self.kind.plural)
                self._must_list = True
            await asyncio.sleep(self._backoff.next())

    async def _list(self) -> None:
        result = await self._client.list(self.kind, *self._selection)
        self._store.replace_all(result.items)
        self._resource_version = result.resource_version
        self._must_list = False
        self._recovered()
        self._synced.set()

    async def _watch(self) -> None:
        """Follow one watch until the server ends it."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        events = self._client.watch(
            self.kind, *self._selection, resource_version=self._resource_version, bookmarks=True
        )
        try:
            async with contextlib.aclosing(events):
                async for event in events:
                    self._backoff.reset()
                    match event.type:
                        case "ADDED" | "MODIFIED":
                            self._store.put(event.object)
                        case "DELETED":
                            self._store.remove(event.object.key)
                    self._resource_version = event.object.metadata.resource_version or self._resource_version
        finally:
            if loop.time() - begun > HEALTHY_SECONDS:
                self._backoff.reset()

    def _report(self, error: str) -> None:
        """One line for each new trouble, not for each try."""
        if error != self._last_error:
            log.warning("%s: cannot list or watch, trying again until it works: %s", self.kind.plural, error)
            self._last_error = error

    def _recovered(self) -> None:
        if self._last_error:
            log.info("%s: listed again", self.kind.plural)
            self._last_error = ""


class Running(Protocol):
    """What works until it is cancelled."""

    async def run(self) -> None: ...


@contextlib.asynccontextmanager
async def running(*works: Running) -> AsyncIterator[None]:
    """Let them work beside the block, and cancel them at its end. For who looks once: what they raise is not told."""
    tasks = [asyncio.create_task(work.run()) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Backoff:
    """Delays that double up to a bound, each shortened by up to a half."""

    def __init__(self, jitter: Callable[[], float]) -> None:
        self._jitter = jitter
        self._delay = FIRST_DELAY

    def reset(self) -> None:
        self._delay = FIRST_DELAY

    def next(self) -> float:
        delay = self._delay * (1 - self._jitter() / 2)
        self._delay = min(LONGEST_DELAY, self._delay * 2)
        return delay

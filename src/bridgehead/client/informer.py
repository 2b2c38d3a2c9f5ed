"""Informer: a local copy of the objects of one kind, kept up to date by a list and a watch.

For a selection of few objects, one request does both: a watch that begins with the objects (KEP-3157), which servers of
Kubernetes have since v1.32, v1.34 by default. For many objects, decoding one list takes less time than their events.

The copy outlives every failure: a broken watch is resumed from the last resourceVersion seen (bookmarks included), and
after a 410 (the server's history is too short) a new list is compared with the copy and handlers get the difference.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from bridgehead.backoff import Backoff
from bridgehead.objects.kinds import Kind
from bridgehead.objects.meta import Object, ObjectKey

from .codec import ListResult, WatchEvent
from .errors import BadRequest, ClientError, Gone, Invalid, Unreachable
from .informer_cache import Handler, IndexFunction, InformerCache

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)

FIRST_DELAY = 0.1
LONGEST_DELAY = 10.0
INITIAL_SECONDS = 10.0  # in which the initial objects of a watch arrive; then they are listed
_END_ANNOTATION = "k8s.io/initial-events-end"
HEALTHY_SECONDS = 5.0  # a watch that lasted this long without an event counts as successful


class Source(Protocol):
    """The part of `ApiClient` that an informer uses."""

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
        initial: bool = False,
    ) -> AsyncGenerator[WatchEvent[T], None]: ...


class Informer(Generic[T]):
    """A copy of all or the selected objects of one kind. Handlers and indexes may be added at any time.

    `trim` returns the part of an object that is kept, with its name, namespace, uid and resourceVersion. `jitter`
    returns numbers from 0 to 1, which spread the retries of many informers. `few`: the selection has few objects.
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
        trim: Callable[[T], T] | None = None,
        few: bool = False,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.kind = kind
        self._client = client
        self._selection = (namespace, label_selector, field_selector)
        self._trim = trim
        self._cache: InformerCache[T] = InformerCache(kind.plural, indexes)
        self._resource_version = ""
        self._must_list = True
        self._lists_by_watch = few
        self._synced = asyncio.Event()
        self._backoff = Backoff(FIRST_DELAY, LONGEST_DELAY, jitter=jitter)
        self._last_error = ""

    @property
    def resource_version(self) -> str:
        """The version of the API's data up to which the copy is complete; "" before the first list."""
        return self._resource_version

    async def wait_synced(self) -> None:
        """Wait until the first list has arrived and handlers have been called for it."""
        await self._synced.wait()

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        self._cache.add_index(name, function)

    def on_change(self, handler: Handler[T]) -> None:
        """Call `handler(None, obj)` now for every object, and `handler(old, new)` for every change from now on.

        Handlers must not block. An exception of one is logged and does not affect the others.
        """
        self._cache.on_change(handler)

    def get(self, key: ObjectKey) -> T | None:
        return self._cache.get(key)

    def keys(self) -> Iterable[ObjectKey]:
        return self._cache.keys()

    def items(self) -> Iterable[T]:
        return self._cache.items()

    def by_index(self, index: str, value: str) -> list[T]:
        """Return the objects for which the index function returns `value`. Raises KeyError without such an index."""
        return self._cache.by_index(index, value)

    def __len__(self) -> int:
        return len(self._cache)

    async def run(self) -> None:
        """Keep the copy up to date until cancelled."""
        while True:
            try:
                if self._must_list and self._lists_by_watch:
                    await self._watch_with_list()
                if self._must_list:
                    await self._list()
                await self._watch()
            except Gone as error:
                log.info("%s: %s; listing again", self.kind.plural, error)
                self._must_list = True
            except Unreachable as error:  # the client has logged it, once for all informers
                log.debug("%s: %s", self.kind.plural, error)
            except ClientError as error:
                self._report(str(error))
                self._must_list = True
            except Exception:  # a bug must not leave the copy stale for all its readers
                log.exception("%s: listing again", self.kind.plural)
                self._must_list = True
            await asyncio.sleep(self._backoff.next())

    async def _list(self) -> None:
        self.take(await self._client.list(self.kind, *self._selection))

    def take(self, result: ListResult[T]) -> None:
        """Take the answer to a list of the selected objects. `run` lists them itself unless it begins with one."""
        self._replace(result.items, result.resource_version)

    def _replace(self, objects: Iterable[T], resource_version: str) -> None:
        self._cache.replace_all(objects if self._trim is None else map(self._trim, objects))
        self._resource_version = resource_version
        self._must_list = False
        self._recovered()
        self._synced.set()

    async def _watch(self) -> None:
        """Apply the events of one watch until the server ends it."""
        events = self._client.watch(
            self.kind, *self._selection, resource_version=self._resource_version, bookmarks=True
        )
        with self._judging_health():
            async with contextlib.aclosing(events):
                async for event in events:
                    self._apply(event)

    async def _watch_with_list(self) -> None:
        """Do the work of `_list` and `_watch` by one request. Return if the server cannot, which is remembered."""
        events = self._client.watch(self.kind, *self._selection, bookmarks=True, initial=True)
        initial: dict[ObjectKey, T] | None = {}
        try:
            with self._judging_health():
                async with asyncio.timeout(INITIAL_SECONDS) as bound, contextlib.aclosing(events):
                    async for event in events:
                        if initial is None:
                            self._apply(event)
                        elif event.type != "BOOKMARK":
                            initial[event.object.key] = event.object
                        elif _END_ANNOTATION in event.object.metadata.annotations:
                            self._replace(initial.values(), event.object.metadata.resource_version)
                            initial = None
                            bound.reschedule(None)
        except (BadRequest, Invalid, TimeoutError) as error:
            log.debug("%s: listing, since a watch does not begin with the objects: %s", self.kind.plural, error)
            self._lists_by_watch = False

    def _apply(self, event: WatchEvent[T]) -> None:
        self._backoff.reset()
        match event.type:
            case "ADDED" | "MODIFIED":
                self._cache.put(event.object if self._trim is None else self._trim(event.object))
            case "DELETED":
                self._cache.remove(event.object.key)
        self._resource_version = event.object.metadata.resource_version or self._resource_version

    @contextlib.contextmanager
    def _judging_health(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            yield
        finally:
            if loop.time() - begun > HEALTHY_SECONDS:
                self._backoff.reset()

    def _report(self, error: str) -> None:
        """Log each new error once, not at every try."""
        if error != self._last_error:
            log.warning("%s: cannot list or watch, trying again until it works: %s", self.kind.plural, error)
            self._last_error = error

    def _recovered(self) -> None:
        if self._last_error:
            log.info("%s: listed again", self.kind.plural)
            self._last_error = ""


class Running(Protocol):
    """Anything that runs until it is cancelled."""

    async def run(self) -> None: ...


@contextlib.asynccontextmanager
async def running(*works: Running) -> AsyncIterator[None]:
    """Run `works` as tasks during the block and cancel them at its end; exceptions of theirs are dropped."""
    tasks = [asyncio.create_task(work.run()) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

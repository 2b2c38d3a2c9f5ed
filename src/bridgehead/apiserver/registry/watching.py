"""Watches: a store's changes as a stream of events for one client.

The beginning of a watch is as in Kubernetes. Without a resourceVersion, or with "0", existing objects come first, as
ADDED events. With a resourceVersion, all later changes come; if the history no longer reaches back to it, the only
event is an ERROR with a 410, and the client lists again. `sendInitialEvents` asks for the existing objects explicitly;
a bookmark with the annotation `k8s.io/initial-events-end` marks their end. An object that enters or leaves the
selection appears as ADDED or DELETED.

A watch from a resourceVersion that the store has not reached begins, and waits for changes above it.
Source: Kubernetes API concepts "Efficient detection of changes", KEP-3157, apiserver/pkg/storage/cacher/cacher.go.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from bridgehead.apiserver.errors import ApiStatus, expired
from bridgehead.apiserver.http.piecewise import PIECE_BYTES, in_turns
from bridgehead.apiserver.http.request_info import Query, RequestInfo, is_true
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.storage import Change, Overflow, Record, Store, TooOld, Watch

from .list_options import check_watch_options, parse_number, parse_resource_version
from .lists import Selection, parse_selection, wants_watch_bookmarks

BOOKMARK_SECONDS = 60.0
# Watches without a timeout end at different times, as in Kubernetes, so that clients do not reconnect all at once.
_DEFAULT_SECONDS = (1800.0, 3600.0)
# A timeout that an event loop's clock accepts.
_MAX_SECONDS = 10.0 * 365 * 24 * 3600
_END_ANNOTATION = "k8s.io/initial-events-end"


class EventForm:
    """The form of a watch's events. This base class writes JSON lines with the objects as they are stored.

    An event is what `start` returns, the object, and `end`.
    """

    content_type = "application/json"
    end = b"}\n"

    def start(self, type: str, size: int) -> bytes:
        """Return what comes before an object of `size` bytes."""
        return b'{"type":"%b","object":' % type.encode()

    def stored(self, value: bytes, revision: int) -> bytes:
        """Return a stored object in this form. `revision` 0: it is not the object's state at any revision."""
        return value

    def bookmark(self, obj: JsonObject) -> bytes:
        """Return an object that has only metadata."""
        return msgspec.json.encode(obj)

    def status(self, status: ApiStatus) -> bytes:
        return msgspec.json.encode(status.to_object())


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Options of a watch. `since` None: begin at the current revision.

    `initial`: send existing objects first; `marks_end`: then send a bookmark that marks their end.
    """

    since: int | None
    initial: bool
    marks_end: bool
    bookmarks: bool
    seconds: float
    selection: Selection


def parse_watch_options(resource: Resource, query: Query) -> WatchOptions:
    """Parse the options of a watch. Raises a 400 or a 422."""
    check_watch_options(query)
    version = parse_resource_version(query)
    bookmarks = wants_watch_bookmarks(query)
    seconds = min(float(parse_number(query, "timeoutSeconds")), _MAX_SECONDS) or random.uniform(*_DEFAULT_SECONDS)
    asked = query.get("sendInitialEvents")
    initial = is_true(query, "sendInitialEvents") if asked is not None else not version
    return WatchOptions(
        since=version or None,
        initial=initial,
        marks_end=initial and bookmarks,
        bookmarks=bookmarks,
        seconds=seconds,
        selection=parse_selection(resource, query),
    )


# The type of an event, its object, and the object's revision (see `EventForm.stored`).
Event = tuple[str, bytes, int]


def select_change(change: Change, selection: Selection) -> Event | None:
    """Return the event for a client with this selection; None if the change is outside of it."""
    record, previous = change.record, change.previous
    if selection.is_everything:
        return change.type, record.value, record.revision
    is_in = change.type != "DELETED" and selection.matches(record.facts)
    was_in = previous is not None and selection.matches(previous.facts)
    if is_in:
        return ("MODIFIED" if was_in else "ADDED"), record.value, record.revision
    if not was_in:
        return None
    if change.type == "DELETED" or previous is None:
        return "DELETED", record.value, record.revision
    return "DELETED", _with_revision(previous.value, record.revision), 0


def _with_revision(value: bytes, revision: int) -> bytes:
    """Return an object with another revision: one that left the selection is sent in its last selected state."""
    obj = msgspec.json.decode(value)
    obj["metadata"]["resourceVersion"] = str(revision)
    return msgspec.json.encode(obj)


class OpenWatches:
    """The open watches of this server, which a shutdown ends."""

    def __init__(self) -> None:
        self._open: set[Watch] = set()
        self._closed = False
        self._counts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, watch: Watch) -> None:
        self._open.add(watch)
        if self._closed:
            watch.close()

    def discard(self, watch: Watch) -> None:
        self._open.discard(watch)
        watch.close()

    def count(self, resource: str, events: int) -> None:
        """Count events that watches of a resource got."""
        self._counts[resource] = self._counts.get(resource, 0) + events

    def counts(self) -> Mapping[str, int]:
        """Return the numbers of events by the id of their resource."""
        return self._counts

    @property
    def closed(self) -> bool:
        """Whether the server is being shut down."""
        return self._closed

    def close(self) -> None:
        self._closed = True
        for watch in tuple(self._open):
            watch.close()


class WatchStream:
    """One client's watch. Iterating yields its body, whose only event is an ERROR if the watch cannot begin."""

    def __init__(
        self,
        store: Store,
        resource: Resource,
        info: RequestInfo,
        options: WatchOptions,
        watches: OpenWatches,
        form: EventForm,
        refusal: ApiStatus | None = None,
    ) -> None:
        """Open a watch; with `refusal`, one that sends only this error."""
        # Bytes that were rendered for this client alone. Other bytes belong to the store.
        self.held_bytes = 0
        self._store = store
        self._resource = resource
        self._options = options
        self._watches = watches
        self._form = form
        namespace = info.namespace if resource.namespaced and info.namespace else None
        self._initial: list[Record] = []
        self._revision = revision = store.revision
        # A revision of the future, up to which nothing is sent.
        self._above = 0
        self._watch: Watch | None = None
        self._refusal = refusal
        if refusal is not None:
            return
        if options.initial:
            self._initial = options.selection.select(store.list(resource.stored.id, namespace))
        elif options.since is not None:
            self._revision = options.since
            if options.since > revision:
                self._above = options.since
        try:
            since, field = min(self._revision, revision), options.selection.field_value
            self._watch = store.watch(resource.stored.id, namespace, since=since, field=field)
        except TooOld:
            self._refusal = expired(f"too old resource version: {self._revision} ({revision})")
        else:
            watches.add(self._watch)

    async def aclose(self) -> None:
        if self._watch is not None:
            self._watches.discard(self._watch)

    def __aiter__(self) -> AsyncGenerator[bytes, None]:
        return self._follow(self._watch) if self._watch is not None else self._refuse()

    async def _refuse(self) -> AsyncGenerator[bytes, None]:
        if self._refusal is not None:
            yield self._event("ERROR", self._form.status(self._refusal))

    async def _follow(self, watch: Watch) -> AsyncGenerator[bytes, None]:
        """Yield the initial objects, and then the changes until the watch ends."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._options.seconds
        # A watch without matching events needs bookmarks, too: they carry the current revision.
        interval = BOOKMARK_SECONDS if self._options.bookmarks else self._options.seconds
        bookmark_at = loop.time() + interval
        for piece in in_turns(self._parts(("ADDED", record.value, record.revision) for record in self._initial)):
            yield piece
        self._initial = []
        if self._options.marks_end:
            yield self._bookmark(at_end=True)
        try:
            while True:
                # All changes up to here have been read, or will be before this wait can time out.
                settled = self._store.revision
                try:
                    async with asyncio.timeout_at(min(end, bookmark_at)):
                        changes = await anext(aiter(watch))
                except TimeoutError:
                    if not getattr(watch, "is_converting", False):
                        self._revision = max(self._revision, settled)
                else:
                    if changes[0].record.revision <= self._above:
                        changes = [change for change in changes if change.record.revision > self._above]
                        if not changes:
                            continue
                    self._revision = changes[-1].record.revision
                    for piece in in_turns(self._parts(self._events(changes))):
                        yield piece
                    if loop.time() < min(end, bookmark_at):
                        continue
                bookmark_at = loop.time() + interval
                if self._options.bookmarks and self._revision > self._above:
                    yield self._bookmark()
                if loop.time() >= end:
                    return
        except StopAsyncIteration:
            return
        except ApiStatus as status:
            # A change cannot be shown in the version of this watch.
            yield self._event("ERROR", self._form.status(status))
        except Overflow:
            gone = expired("the watch was too slow to keep up with the changes; list again")
            yield self._event("ERROR", self._form.status(gone))

    def _events(self, changes: Iterable[Change]) -> Iterable[Event]:
        """Yield the events in this client's selection."""
        selection = self._options.selection
        if selection.is_everything:
            return ((change.type, change.record.value, change.record.revision) for change in changes)
        events = (select_change(change, selection) for change in changes)
        return (event for event in events if event is not None)

    def _parts(self, events: Iterable[Event]) -> Iterator[bytes]:
        """Yield the bytes of events. A large object is passed as the store's own bytes, which all watches share."""
        form, count = self._form, 0
        for kind, value, revision in events:
            count += 1
            shown = form.stored(value, revision)
            if shown is not value:
                self.held_bytes = len(shown)
            if len(shown) < PIECE_BYTES:
                yield self._event(kind, shown)
            else:
                yield form.start(kind, len(shown))
                yield shown
                yield form.end
        self.held_bytes = 0
        self._watches.count(self._resource.stored.id, count)

    def _event(self, kind: str, shown: bytes) -> bytes:
        return b"".join((self._form.start(kind, len(shown)), shown, self._form.end))

    def _bookmark(self, *, at_end: bool = False) -> bytes:
        meta: dict[str, object] = {"resourceVersion": str(self._revision)}
        if at_end:
            meta["annotations"] = {_END_ANNOTATION: "true"}
        obj = {"kind": self._resource.kind, "apiVersion": self._resource.api_version, "metadata": meta}
        return self._event("BOOKMARK", self._form.bookmark(obj))

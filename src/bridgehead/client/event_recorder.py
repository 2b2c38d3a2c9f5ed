"""Event recorder: Events about objects, as `kubectl describe` shows them.

`record` never waits and never fails; `run` writes in the background, in order. A late Event has little value, so an
Event that cannot be written for a minute is dropped.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from bridgehead.objects.core import Event, EventSource
from bridgehead.objects.kinds import ALL_KINDS, EVENTS
from bridgehead.objects.meta import Object, ObjectMeta, ObjectReference
from bridgehead.objects.times import format_time

from .api import ApiClient
from .errors import AlreadyExists, ClientError, NotFound, Unreachable
from .event_correlation import CorrelatedEvent, Correlator, Occurrence

log = logging.getLogger(__name__)

QUEUE_SIZE = 1000
UNREACHABLE_TRIES = 12
UNREACHABLE_SECONDS = 5.0
LONGEST_MESSAGE = 1024  # characters, the API's limit

_API_VERSIONS = {kind.name: kind.api_version for kind in ALL_KINDS}


def reference_to(obj: Object) -> ObjectReference:
    """Return a reference to an object of one of the kinds in `objects.kinds`."""
    name = type(obj).__name__
    meta = obj.metadata
    return ObjectReference(
        api_version=_API_VERSIONS.get(name, ""),
        kind=name,
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


class EventRecorder:
    """Records Events of one `component`, with `host` if the component belongs to a node."""

    def __init__(
        self, client: ApiClient, component: str, host: str = "", *, now: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._source = EventSource(component=component, host=host)
        self._now = now
        self._correlator = Correlator()
        self._waiting: asyncio.Queue[CorrelatedEvent] = asyncio.Queue(QUEUE_SIZE)

    def record(
        self,
        about: Object | ObjectReference,
        *,
        type: str = "Normal",
        reason: str,
        message: str,
        is_shared: bool = False,
    ) -> None:
        """Queue an Event about an object. A repeated one only raises the count of the first.

        `is_shared`: processes that record the same make one Event, that of the first of them.
        """
        reference = reference_to(about) if isinstance(about, Object) else about
        if len(message) > LONGEST_MESSAGE:
            message = message[: LONGEST_MESSAGE - 3] + "..."
        event = self._correlator.correlate(Occurrence(reference, type, reason, message, self._now(), is_shared))
        if event is None:
            log.debug("too many events about %s %s, dropped: %s", reference.kind, reference.name, message)
            return
        try:
            self._waiting.put_nowait(event)
        except asyncio.QueueFull:
            log.debug("too many events wait to be written, dropped: %s", message)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            event = await self._waiting.get()
            for _ in range(UNREACHABLE_TRIES):
                try:
                    await self._write(event)
                except Unreachable:
                    await asyncio.sleep(UNREACHABLE_SECONDS)
                    continue
                except AlreadyExists:
                    log.debug("event %s exists: another process has recorded it", event.name)
                except ClientError as error:
                    # For example because the namespace is being deleted.
                    log.debug("event %s not written: %s", event.name, error)
                break

    async def _write(self, event: CorrelatedEvent) -> None:
        if event.count > 1:
            patch = {
                "count": event.count,
                "lastTimestamp": format_time(event.occurrence.at),
                "message": event.occurrence.message,
            }
            try:
                await self._client.patch(EVENTS, event.name, event.namespace, patch)
                return
            except NotFound:
                pass  # the Event has expired: create another one with the count so far
        await self._client.create(EVENTS, self._event(event))

    def _event(self, event: CorrelatedEvent) -> Event:
        occurrence = event.occurrence
        return Event(
            metadata=ObjectMeta(name=event.name, namespace=event.namespace),
            involved_object=occurrence.about,
            reason=occurrence.reason,
            message=occurrence.message,
            type=occurrence.type,
            source=self._source,
            first_timestamp=format_time(event.first),
            last_timestamp=format_time(occurrence.at),
            count=event.count,
            reporting_component=self._source.component,
            reporting_instance=self._source.host,
        )

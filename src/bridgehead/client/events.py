"""Telling users what happened to an object, as Events that `kubectl describe` shows.

`record` never waits and never fails; `run` writes in the background, in order. Events are worth little when they are
late or lost, so what can't be written is dropped rather than kept for ever.
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
from .correlation import Correlator, Happening, Sighting
from .errors import ClientError, NotFound, Unreachable

log = logging.getLogger(__name__)

WAITING_EVENTS = 1000
UNREACHABLE_TRIES = 12
UNREACHABLE_SECONDS = 5.0
LONGEST_MESSAGE = 1024  # the API's own bound

_API_VERSIONS = {kind.name: kind.api_version for kind in ALL_KINDS}


def reference_to(obj: Object) -> ObjectReference:
    """A reference to an object of one of our kinds."""
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
    """Events of one `component`, on `host` if it belongs to a node."""

    def __init__(
        self, client: ApiClient, component: str, host: str = "", *, now: Callable[[], float] = time.time
    ) -> None:
        self._client = client
        self._source = EventSource(component=component, host=host)
        self._now = now
        self._correlator = Correlator()
        self._waiting: asyncio.Queue[Sighting] = asyncio.Queue(WAITING_EVENTS)

    def record(self, about: Object | ObjectReference, *, type: str = "Normal", reason: str, message: str) -> None:
        """Tell that `reason` happened to an object; the same again only raises the Event's count."""
        reference = reference_to(about) if isinstance(about, Object) else about
        if len(message) > LONGEST_MESSAGE:
            message = message[: LONGEST_MESSAGE - 3] + "..."
        sighting = self._correlator.see(Happening(reference, type, reason, message, self._now()))
        if sighting is None:
            log.debug("too many events about %s %s, dropped: %s", reference.kind, reference.name, message)
            return
        try:
            self._waiting.put_nowait(sighting)
        except asyncio.QueueFull:
            log.debug("too many events wait to be written, dropped: %s", message)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            sighting = await self._waiting.get()
            for _ in range(UNREACHABLE_TRIES):
                try:
                    await self._write(sighting)
                except Unreachable:
                    await asyncio.sleep(UNREACHABLE_SECONDS)
                    continue
                except ClientError as error:
                    # Such as: the namespace is going away, and takes its events with it.
                    log.debug("event %s not written: %s", sighting.name, error)
                break

    async def _write(self, sighting: Sighting) -> None:
        if sighting.count > 1:
            patch = {
                "count": sighting.count,
                "lastTimestamp": format_time(sighting.happening.at),
                "message": sighting.happening.message,
            }
            try:
                await self._client.patch(EVENTS, sighting.name, sighting.namespace, patch)
                return
            except NotFound:
                pass  # events expire; begin a new one with the count it has reached
        await self._client.create(EVENTS, self._event(sighting))

    def _event(self, sighting: Sighting) -> Event:
        happening = sighting.happening
        return Event(
            metadata=ObjectMeta(name=sighting.name, namespace=sighting.namespace),
            involved_object=happening.about,
            reason=happening.reason,
            message=happening.message,
            type=happening.type,
            source=self._source,
            first_timestamp=format_time(sighting.first),
            last_timestamp=format_time(happening.at),
            count=sighting.count,
            reporting_component=self._source.component,
            reporting_instance=self._source.host,
        )

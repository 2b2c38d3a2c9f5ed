"""Events are forgotten an hour after they last happened (kube-apiserver's `--event-ttl`)."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.objects.times import parse_time
from bridgehead.storage import StorageError

from .deletion import DeleteOptions
from .registry import Registry

log = logging.getLogger(__name__)

EVENT_SECONDS = 3600.0
_INTERVAL = 60.0
# Looked at between two turns of the event loop: a millisecond or two.
_PIECE = 200


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: str | None = None


class _Series(msgspec.Struct, rename="camel"):
    last_observed_time: str | None = None


class _Event(msgspec.Struct, rename="camel"):
    """The times of an Event, and nothing else of it."""

    metadata: _Metadata
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None


_decode = msgspec.json.Decoder(_Event).decode


def last_happened(event: bytes) -> float:
    """Seconds since the epoch. Raises ValueError for a time that is none."""
    its = _decode(event)
    observed = None if its.series is None else its.series.last_observed_time
    times = (its.metadata.creation_timestamp, its.last_timestamp, its.event_time, observed)
    return max((parse_time(time) for time in times if time), default=0.0)


def _is_forgotten(event: bytes, oldest: float) -> bool:
    try:
        return last_happened(event) < oldest
    except (ValueError, msgspec.DecodeError):
        # Stored by a version that took such a time; it can't be told, so it goes.
        return True


async def expire_events(registry: Registry) -> None:
    """Until cancelled."""
    while True:
        await asyncio.sleep(_INTERVAL)
        try:
            await expire_once(registry)
        except StorageError as error:
            # A full disk keeps the server from forgetting, not from answering.
            log.warning("can't expire events: %s", error)


async def expire_once(registry: Registry) -> None:
    events = registry.find("", "v1", "events")
    if events is None:
        return
    oldest = registry.clock() - EVENT_SECONDS
    for number, record in enumerate(registry.store.list(events.id), start=1):
        if number % _PIECE == 0:
            await asyncio.sleep(0)
        if _is_forgotten(record.value, oldest):
            try:
                # It may have happened again by now.
                options = DeleteOptions(resource_version=str(record.revision))
                await registry.delete(events, record.key.namespace, record.key.name, options)
            except ApiStatus as status:
                if status.code not in (404, 409):
                    log.warning("can't expire event %s/%s: %s", record.key.namespace, record.key.name, status)

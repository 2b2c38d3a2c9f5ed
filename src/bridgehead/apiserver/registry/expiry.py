"""Deletion of Events some time after their last occurrence (kube-apiserver's `--event-ttl`).

On etcd they have leases, so there is nothing left to delete here, but for Events without a lease.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.objects.times import parse_time
from bridgehead.storage import StorageError

from .deletion import DeleteOptions
from .registry import Registry
from .write import Write

log = logging.getLogger(__name__)

EVENT_SECONDS = 3600.0
_INTERVAL = 60.0
# Events that are checked in one turn of the event loop, which takes one or two milliseconds.
_PIECE = 200


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: str | None = None


class _Series(msgspec.Struct, rename="camel"):
    last_observed_time: str | None = None


class _Event(msgspec.Struct, rename="camel"):
    """The times of an Event. The decoder skips its other fields."""

    metadata: _Metadata
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None


_decode = msgspec.json.Decoder(_Event).decode


def last_occurrence(event: bytes) -> float:
    """Return when an Event occurred last, in seconds since the epoch. Raises ValueError for invalid times."""
    decoded = _decode(event)
    observed = None if decoded.series is None else decoded.series.last_observed_time
    times = (decoded.metadata.creation_timestamp, decoded.last_timestamp, decoded.event_time, observed)
    return max((parse_time(time) for time in times if time), default=0.0)


def seconds_left(event: bytes, seconds: float, now: float) -> float:
    """Return what is left of an Event's lifetime of `seconds`; 0 or less for one that is over."""
    try:
        return last_occurrence(event) + seconds - now
    except (ValueError, msgspec.DecodeError):
        return 0.0


def _is_expired(event: bytes, oldest: float) -> bool:
    try:
        return last_occurrence(event) < oldest
    except (ValueError, msgspec.DecodeError):
        # A previous version stored it: this one refuses such times.
        return True


async def expire_events(registry: Registry, seconds: float = EVENT_SECONDS) -> None:
    """Delete Events of this age every minute, until cancelled."""
    while True:
        await asyncio.sleep(_INTERVAL)
        try:
            await expire_once(registry, seconds)
        except StorageError as error:
            # The server goes on with a full disk, and keeps its Events.
            log.warning("cannot expire events: %s", error)


async def expire_once(registry: Registry, seconds: float = EVENT_SECONDS) -> None:
    events = registry.find("", "v1", "events")
    if events is None:
        return
    oldest = registry.clock() - seconds
    for number, record in enumerate(registry.store.list(events.id), start=1):
        if number % _PIECE == 0:
            await asyncio.sleep(0)
        if _is_expired(record.value, oldest):
            try:
                # The deletion has a precondition: the Event may have occurred again by now.
                options = DeleteOptions(resource_version=str(record.revision))
                await registry.delete(Write(events, record.key.namespace, record.key.name), options)
            except ApiStatus as status:
                if status.code not in (404, 409):
                    log.warning("cannot expire event %s/%s: %s", record.key.namespace, record.key.name, status)

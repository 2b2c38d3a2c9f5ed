"""Events are forgotten an hour after they last happened (kube-apiserver's `--event-ttl`)."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from bridgehead.objects.times import parse_time

from .deletion import DeleteOptions
from .errors import ApiStatus
from .registry import Registry
from .resource import JsonObject

log = logging.getLogger(__name__)

EVENT_SECONDS = 3600.0
_INTERVAL = 60.0


def last_happened(event: JsonObject) -> float:
    """Seconds since the epoch."""
    times = (
        event["metadata"].get("creationTimestamp"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        (event.get("series") or {}).get("lastObservedTime"),
    )
    return max((parse_time(time) for time in times if time), default=0.0)


def _is_forgotten(event: JsonObject, oldest: float) -> bool:
    try:
        return last_happened(event) < oldest
    except ValueError:
        # Stored by a version that took such a time; it can't be told, so it goes.
        return True


async def expire_events(registry: Registry) -> None:
    """Until cancelled."""
    while True:
        await asyncio.sleep(_INTERVAL)
        await expire_once(registry)


async def expire_once(registry: Registry) -> None:
    events = registry.find("", "v1", "events")
    if events is None:
        return
    oldest = registry.clock() - EVENT_SECONDS
    for record in registry.store.list(events.id):
        if _is_forgotten(msgspec.json.decode(record.value), oldest):
            try:
                await registry.delete(events, record.key.namespace, record.key.name, DeleteOptions())
            except ApiStatus as status:
                if status.code != 404:
                    log.warning("can't expire event %s/%s: %s", record.key.namespace, record.key.name, status)

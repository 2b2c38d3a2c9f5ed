"""Events.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.objects.meta import Object, ObjectReference, Part


class EventSource(Part, frozen=True, kw_only=True):
    component: str = ""
    host: str = ""


class Event(Object, frozen=True, kw_only=True):
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    source: EventSource = EventSource()
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    count: int = 0
    reporting_component: str = ""
    reporting_instance: str = ""
    action: str = ""

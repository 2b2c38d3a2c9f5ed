"""Event (core/v1): its entry in the table."""

from __future__ import annotations

from bridgehead.apiserver.resource import Column, JsonObject, Resource
from bridgehead.objects.names import check_dns1123_subdomain

from .columns import NAME, at, selectable, since, text_column


def _first_seen(event: JsonObject, now: float) -> str:
    return since(event.get("firstTimestamp") or event.get("eventTime"), now)


def _last_seen(event: JsonObject, now: float) -> str:
    if "series" in event:
        return since(event["series"].get("lastObservedTime"), now)
    if event.get("lastTimestamp"):
        return since(event["lastTimestamp"], now)
    return _first_seen(event, now)


def _count(event: JsonObject, now: float) -> int:
    if "series" in event:
        return int(event["series"].get("count", 0))
    return int(event.get("count", 0)) or 1  # an event of the newer API that happened once has no count


def _object(event: JsonObject, now: float) -> str:
    involved = event.get("involvedObject", {})
    kind, name = str(involved.get("kind", "")).lower(), involved.get("name", "")
    return f"{kind}/{name}" if name else kind


def _source(event: JsonObject, now: float) -> str:
    component = at(event, "source", "component") or event.get("reportingComponent", "")
    instance = at(event, "source", "host") or event.get("reportingInstance", "")
    return ", ".join(filter(None, (component, instance))) if instance else str(component)


def _source_name(event: JsonObject) -> str:
    return str(at(event, "source", "component") or event.get("reportingComponent", ""))


RESOURCE = Resource(
    group="",
    version="v1",
    kind="Event",
    plural="events",
    singular="event",
    namespaced=True,
    short_names=("ev",),
    columns=(
        Column("Last Seen", _last_seen),
        text_column("Type", "type"),
        text_column("Reason", "reason"),
        Column("Object", _object),
        text_column("Subobject", "involvedObject", "fieldPath", priority=1),
        Column("Source", _source, priority=1),
        Column("Message", lambda event, now: str(event.get("message", "")).strip()),
        Column("First Seen", _first_seen, priority=1),
        Column("Count", _count, priority=1),
        Column("Name", NAME.cell, format="name", priority=1),
    ),
    selectable={
        **{
            f"involvedObject.{name}": selectable("involvedObject", name)
            for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        },
        "reason": selectable("reason"),
        "reportingComponent": selectable("reportingComponent"),
        "source": _source_name,
        "type": selectable("type"),
    },
    check_name=check_dns1123_subdomain,
)

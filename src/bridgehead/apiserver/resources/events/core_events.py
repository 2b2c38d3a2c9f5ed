"""Event (core/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateEvent`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import NAME, at, selectable, since, text_column
from bridgehead.objects.names import check_path_segment, check_qualified_name


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
    return int(event.get("count", 0)) or 1  # a single event of the newer API has no count


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


# The namespaces for events about cluster-scoped objects.
_CLUSTER_NAMESPACES = ("default", "kube-system")
_LIMITS = {"action": 128, "reason": 128, "reportingInstance": 128}
_MAX_MESSAGE = 1024


class EventStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        obj.setdefault("source", {})
        for name in ("reportingComponent", "reportingInstance"):
            obj.setdefault(name, "")

    def validate(self, obj: JsonObject) -> list[FieldError]:
        namespace = at(obj, "metadata", "namespace") or ""
        involved = at(obj, "involvedObject", "namespace") or ""
        errors = []
        # Events of the newer API may be in another namespace than the object that they are about.
        is_elsewhere = involved != namespace and not obj.get("eventTime")
        if (involved and is_elsewhere) or (not involved and namespace not in ("", *_CLUSTER_NAMESPACES)):
            errors.append(field.invalid("involvedObject.namespace", involved, "does not match event.namespace"))
        if obj.get("eventTime"):
            errors.extend(_validate_new_style(obj))
        return errors


def _validate_new_style(event: JsonObject) -> list[FieldError]:
    """Validate an event with `eventTime`, which is of the newer API with stricter rules."""
    component = event.get("reportingComponent", "")
    errors = [] if component else [field.required("reportingController")]
    errors.extend(field.invalid_for("reportingController", component, check_qualified_name(component)))
    for name, limit in _LIMITS.items():
        value = event.get(name, "")
        if not value:
            errors.append(field.required(name))
        elif len(value) > limit:
            errors.append(field.invalid(name, "", f"can have at most {limit} characters"))
    if len(event.get("message", "").encode()) > _MAX_MESSAGE:
        errors.append(field.invalid("message", "", f"can have at most {_MAX_MESSAGE} characters"))
    return errors


RESOURCE = Resource(
    group="",
    version="v1",
    kind="Event",
    plural="events",
    singular="event",
    namespaced=True,
    short_names=("ev",),
    strategy=EventStrategy(),
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
    is_created_by_update=True,
    check_name=check_path_segment,
)

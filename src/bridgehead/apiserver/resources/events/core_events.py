"""Event (core/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateEvent`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
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
_LIMITED = ("action", "reason", "reportingInstance")
_MAX_WORD = 128
_MAX_MESSAGE = 1024


class EventStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        obj.setdefault("source", {})
        for name in ("reportingComponent", "reportingInstance"):
            obj.setdefault(name, "")

    def validate(self, obj: Field) -> None:
        namespace = obj.at("metadata").get("namespace") or ""
        involved = obj.at("involvedObject").at("namespace", "")
        is_new_style = bool(obj.get("eventTime"))
        # Events of the newer API may be in another namespace than the object that they are about.
        is_elsewhere = involved.value != namespace and not is_new_style
        if (involved and is_elsewhere) or (not involved and namespace not in ("", *_CLUSTER_NAMESPACES)):
            involved.invalid("does not match event.namespace")
        if is_new_style:
            _validate_new_style(obj)


def _validate_new_style(event: Field) -> None:
    """Validate an event with `eventTime`, which is of the newer API with stricter rules."""
    controller = Field(event.get("reportingComponent", ""), "reportingController", event)
    controller.must_be_set()
    controller.must_pass(check_qualified_name)
    for name in _LIMITED:
        word = event.at(name)
        if word.must_be_set() and len(word.value) > _MAX_WORD:
            word.showing("").invalid(f"can have at most {_MAX_WORD} characters")
    if len(event.get("message", "").encode()) > _MAX_MESSAGE:
        event.at("message").showing("").invalid(f"can have at most {_MAX_MESSAGE} characters")


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

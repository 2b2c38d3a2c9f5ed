"""Event (events.k8s.io/v1): its entry in the table, its conversion and its rules, which are stricter than core/v1's.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `pkg/apis/events/v1/conversion.go`, `ValidateEventCreate`, `ValidateEventUpdate`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import IMMUTABLE, Field
from bridgehead.apiserver.resource import JsonObject, Resource, StoredForm, Strategy
from bridgehead.objects.names import check_dns1123_subdomain

from .core_events import RESOURCE as CORE_EVENTS

_API_VERSION = "events.k8s.io/v1"
# Names of fields here, and of the same fields in core/v1.
_STORED_NAMES = {
    "reportingController": "reportingComponent",
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_NAMES = {stored: name for name, stored in _STORED_NAMES.items()}
_OBJECT_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_STORED_SELECTORS = {
    **{f"regarding.{name}": f"involvedObject.{name}" for name in _OBJECT_FIELDS},
    "reason": "reason",
    "reportingController": "reportingComponent",
    "type": "type",
}
_TYPES = ("Normal", "Warning")
# Fields of the older API, by the name that errors have.
_UNSET = {
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "source": "deprecatedSource",
}
# Fields that only the series may change, by the name that errors have.
_IMMUTABLE_FIELDS = {
    "involvedObject": "regarding",
    "reason": "reason",
    "message": "note",
    **_UNSET,
    "type": "type",
    "eventTime": "eventTime",
    "action": "action",
    "related": "related",
    "reportingController": "reportingController",
    "reportingInstance": "reportingInstance",
}


def to_stored(event: JsonObject) -> JsonObject:
    """Return the core/v1 form of an event."""
    return {_STORED_NAMES.get(name, name): value for name, value in event.items()} | {"apiVersion": "v1"}


def from_stored(event: JsonObject) -> JsonObject:
    """Return the events.k8s.io/v1 form of a core/v1 event."""
    return {_NAMES.get(name, name): value for name, value in event.items()} | {"apiVersion": _API_VERSION}


class EventRules(Strategy):
    """The rules of events.k8s.io/v1, which core/v1 does not have."""

    def validate_create(self, obj: Field) -> None:
        obj.at("series").must_obey(_validate_series)
        obj.at("eventTime").must_be_set()
        if obj.get("type") not in _TYPES:
            obj.at("type").showing("").invalid(f"has invalid value: {obj.get('type', '')}")
        for name, ours in _UNSET.items():
            if obj.get(ours):
                Field("", name, obj).invalid("needs to be unset")

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        if obj.get("series") != old.get("series"):
            obj.at("series").must_obey(_validate_series)
        for name, ours in _IMMUTABLE_FIELDS.items():
            value = Field(obj.get(ours), name, obj)
            if (value.value or None) != (old.get(ours) or None):
                value.invalid(IMMUTABLE)


def _validate_series(series: Field) -> None:
    if series.get("count", 0) < 2:
        series.at("count").showing("").invalid("should be at least 2")
    series.at("lastObservedTime").must_be_set()


RESOURCE = Resource(
    group="events.k8s.io",
    version="v1",
    kind="Event",
    plural="events",
    singular="event",
    namespaced=True,
    short_names=("ev",),
    strategy=CORE_EVENTS.strategy,
    columns=CORE_EVENTS.columns,
    selectable={name: CORE_EVENTS.selectable[stored] for name, stored in _STORED_SELECTORS.items()},
    is_created_by_update=True,
    stored_form=StoredForm(CORE_EVENTS, to_stored, from_stored, _STORED_SELECTORS, EventRules()),
    check_name=check_dns1123_subdomain,
)

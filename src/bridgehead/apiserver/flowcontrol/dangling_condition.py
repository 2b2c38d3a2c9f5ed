"""The condition Dangling of a FlowSchema: whether its priority level is missing.

Pure: no I/O, no clock, no randomness. Source: apiserver/pkg/util/flowcontrol/apf_controller.go (syncOne).
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject

_TYPE = "Dangling"


def dangling(level: str, *, exists: bool) -> JsonObject:
    """Return the condition of a schema that refers to `level`, without the time of its last transition."""
    if exists:
        why = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" and it exists'
        return {"type": _TYPE, "status": "False", "reason": "Found", "message": why}
    why = (
        f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" but there is no such object'
    )
    return {"type": _TYPE, "status": "True", "reason": "NotFound", "message": why}


def with_condition(schema: JsonObject, condition: JsonObject, now: str) -> JsonObject | None:
    """Return the schema with the condition in its status, None if it has it already. `now` is an RFC 3339 time."""
    conditions = schema.get("status", {}).get("conditions", [])
    old = next((one for one in conditions if one.get("type") == _TYPE), None)
    if old is not None and {**condition, "lastTransitionTime": old.get("lastTransitionTime")} == old:
        return None
    since = now if old is None or old.get("status") != condition["status"] else old.get("lastTransitionTime", now)
    kept = [one for one in conditions if one is not old]
    return {**schema, "status": {"conditions": [*kept, {**condition, "lastTransitionTime": since}]}}

"""Metrics of autoscaling/v2 in the form in which annotations of autoscaling/v1 have them, and back.

Called by `older_autoscalers`. The conversions drop what the other form has no field for, and skip metrics of unknown
types. Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/autoscaling/v1/conversion.go`.
"""

from __future__ import annotations

from collections.abc import Mapping

from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.columns import at

Path = tuple[str, ...]

# Fields of v1 -> the paths of the same values in v2, by the type of the metric.
_SPECS: dict[str, dict[str, Path]] = {
    "object": {
        "target": ("describedObject",),
        "metricName": ("metric", "name"),
        "selector": ("metric", "selector"),
        "targetValue": ("target", "value"),
        "averageValue": ("target", "averageValue"),
    },
    "pods": {
        "metricName": ("metric", "name"),
        "selector": ("metric", "selector"),
        "targetAverageValue": ("target", "averageValue"),
    },
    "resource": {
        "name": ("name",),
        "targetAverageUtilization": ("target", "averageUtilization"),
        "targetAverageValue": ("target", "averageValue"),
    },
    "containerResource": {
        "name": ("name",),
        "container": ("container",),
        "targetAverageUtilization": ("target", "averageUtilization"),
        "targetAverageValue": ("target", "averageValue"),
    },
    "external": {
        "metricName": ("metric", "name"),
        "metricSelector": ("metric", "selector"),
        "targetValue": ("target", "value"),
        "targetAverageValue": ("target", "averageValue"),
    },
}
_STATUSES: dict[str, dict[str, Path]] = {
    "object": {
        "target": ("describedObject",),
        "metricName": ("metric", "name"),
        "selector": ("metric", "selector"),
        "currentValue": ("current", "value"),
        "averageValue": ("current", "averageValue"),
    },
    "pods": {
        "metricName": ("metric", "name"),
        "selector": ("metric", "selector"),
        "currentAverageValue": ("current", "averageValue"),
    },
    "resource": {
        "name": ("name",),
        "currentAverageUtilization": ("current", "averageUtilization"),
        "currentAverageValue": ("current", "averageValue"),
    },
    "containerResource": {
        "name": ("name",),
        "container": ("container",),
        "currentAverageUtilization": ("current", "averageUtilization"),
        "currentAverageValue": ("current", "averageValue"),
    },
    "external": {
        "metricName": ("metric", "name"),
        "metricSelector": ("metric", "selector"),
        "currentValue": ("current", "value"),
        "currentAverageValue": ("current", "averageValue"),
    },
}


def older_spec(metric: JsonObject) -> JsonObject:
    return _to_older(metric, _SPECS)


def older_status(metric: JsonObject) -> JsonObject:
    return _to_older(metric, _STATUSES)


def newer_spec(metric: JsonObject) -> JsonObject:
    """Return a metric of v1's annotation in the form of v2, with the type of its target."""
    newer = _to_newer(metric, _SPECS)
    for source in _SPECS.keys() & newer.keys():
        target = newer[source].setdefault("target", {})
        if "averageUtilization" in target:
            target["type"] = "Utilization"
        else:
            target["type"] = "AverageValue" if "averageValue" in target else "Value"
    return newer


def newer_status(metric: JsonObject) -> JsonObject:
    return _to_newer(metric, _STATUSES)


def _to_older(metric: JsonObject, table: Mapping[str, Mapping[str, Path]]) -> JsonObject:
    older: JsonObject = {"type": metric.get("type", "")}
    for source in table.keys() & metric.keys():
        found = {name: at(metric[source], *path) for name, path in table[source].items()}
        older[source] = {name: value for name, value in found.items() if value is not None}
    return older


def _to_newer(metric: JsonObject, table: Mapping[str, Mapping[str, Path]]) -> JsonObject:
    newer: JsonObject = {"type": metric.get("type", "")}
    for source in table.keys() & metric.keys():
        newer[source] = {}
        for name, path in table[source].items():
            if (value := at(metric[source], name)) is not None:
                holder = newer[source]
                for step in path[:-1]:
                    holder = holder.setdefault(step, {})
                holder[path[-1]] = value
    return newer

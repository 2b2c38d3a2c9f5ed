"""HorizontalPodAutoscaler (autoscaling/v1): its entry in the table and its conversion.

This version knows one metric, the use of CPU. Annotations carry the others, the behavior and the conditions.
Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/autoscaling/v1/conversion.go`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bridgehead.apiserver.resource import JsonObject, StoredForm
from bridgehead.apiserver.resources.shared.columns import at

from .autoscalers import RESOURCE as STORED
from .older_metrics import newer_spec, newer_status, older_spec, older_status

_API_VERSION = "autoscaling/v1"
_PREFIX = "autoscaling.alpha.kubernetes.io/"
_METRICS, _BEHAVIOR = f"{_PREFIX}metrics", f"{_PREFIX}behavior"
_CURRENT_METRICS, _CONDITIONS = f"{_PREFIX}current-metrics", f"{_PREFIX}conditions"
_CARRIED = (_METRICS, _BEHAVIOR, _CURRENT_METRICS, _CONDITIONS)


def to_stored(obj: JsonObject) -> JsonObject:
    """Return the autoscaling/v2 form. Annotations that are not the JSON of what they carry are dropped."""
    stored = {**obj, "apiVersion": STORED.api_version}
    annotations = at(obj, "metadata", "annotations") or {}
    spec = dict(obj.get("spec") or {})
    utilization = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = [newer_spec(metric) for metric in _objects(annotations, _METRICS)]
    if utilization is not None:
        target = {"type": "Utilization", "averageUtilization": utilization}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    if metrics:
        spec["metrics"] = metrics
    if isinstance(behavior := _carried(annotations, _BEHAVIOR), dict):
        spec["behavior"] = behavior
    if "spec" in obj or metrics:
        stored["spec"] = spec
    if "status" in obj:
        stored["status"] = _stored_status(obj["status"], annotations)
    if "metadata" in obj:
        stored["metadata"] = _with_annotations(obj["metadata"], {})
    return stored


def from_stored(stored: JsonObject) -> JsonObject:
    """Return the autoscaling/v1 form."""
    obj = {**stored, "apiVersion": _API_VERSION}
    carried: dict[str, Any] = {}
    if "spec" in stored:
        spec = obj["spec"] = dict(stored["spec"])
        metrics = spec.pop("metrics", ())
        behavior = spec.pop("behavior", None)
        cpu = [metric for metric in metrics if _is_cpu_utilization(metric)]
        if cpu:
            spec["targetCPUUtilizationPercentage"] = cpu[0]["resource"]["target"]["averageUtilization"]
        carried[_METRICS] = [older_spec(metric) for metric in metrics if metric not in cpu]
        carried[_BEHAVIOR] = behavior
    if "status" in stored:
        status = obj["status"] = dict(stored["status"])
        current = status.pop("currentMetrics", None) or ()
        for metric in current:
            utilization = at(metric, "resource", "current", "averageUtilization")
            if at(metric, "resource", "name") == "cpu" and utilization is not None:
                status["currentCPUUtilizationPercentage"] = utilization
        carried[_CURRENT_METRICS] = [older_status(metric) for metric in current]
        carried[_CONDITIONS] = status.pop("conditions", None)
    if "metadata" in stored:
        texts = {name: _encode(value) for name, value in carried.items() if value}
        obj["metadata"] = _with_annotations(stored["metadata"], texts)
    return obj


def _stored_status(status: JsonObject, annotations: Mapping[str, str]) -> JsonObject:
    newer = dict(status)
    utilization = newer.pop("currentCPUUtilizationPercentage", None)
    current = [newer_status(metric) for metric in _objects(annotations, _CURRENT_METRICS)]
    if not current and utilization is not None:
        values = {"averageUtilization": utilization}
        current = [{"type": "Resource", "resource": {"name": "cpu", "current": values}}]
    if current:
        newer["currentMetrics"] = current
    if conditions := _objects(annotations, _CONDITIONS):
        newer["conditions"] = conditions
    return newer


def _is_cpu_utilization(metric: JsonObject) -> bool:
    return at(metric, "resource", "name") == "cpu" and "averageUtilization" in metric["resource"].get("target", {})


def _with_annotations(metadata: JsonObject, carried: Mapping[str, str]) -> JsonObject:
    """Return the metadata with these annotations in the place of all that carry fields of v2."""
    annotations = {name: text for name, text in (metadata.get("annotations") or {}).items() if name not in _CARRIED}
    annotations.update(carried)
    kept = {name: value for name, value in metadata.items() if name != "annotations"}
    return {**kept, "annotations": annotations} if annotations else kept


def _objects(annotations: Mapping[str, str], name: str) -> list[JsonObject]:
    found = _carried(annotations, name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _carried(annotations: Mapping[str, str], name: str) -> Any:
    try:
        return json.loads(annotations.get(name, "null"))
    except ValueError:
        return None


def _encode(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


RESOURCE = replace(STORED, version="v1", stored_form=StoredForm(STORED, to_stored, from_stored), api_versions=())

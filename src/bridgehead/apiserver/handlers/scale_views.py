"""The Scale of an object: what the subresource `scale` shows, and the object with the replicas of its Scale.

Pure: no I/O, no clock, no randomness.
Source: pkg/registry/apps/deployment/storage, apiextensions-apiserver/pkg/registry/customresource/etcd.go.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bridgehead.apiserver.registry.write import View
from bridgehead.apiserver.resource import JsonObject, Resource, ScalePaths
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, number_column
from bridgehead.apiserver.resources.shared.metadata_validation import selector_text

_REPLICAS = ("spec", "replicas")
SCALE_COLUMNS = (
    NAME,
    number_column("Desired", "spec", "replicas"),
    number_column("Available", "status", "replicas"),
    AGE,
)


def scale_view(resource: Resource) -> View:
    """Return the view of a resource's objects as Scales. A custom resource may have no `spec.replicas` to show."""
    paths = resource.scale
    if paths is None:
        return View(scale_of, _scaled)
    return View(partial(_custom_scale, paths), partial(_with_replicas, paths.spec_replicas))


def spec_path(resource: Resource) -> str:
    """Return the path of the field with the wanted number of replicas, such as `.spec.replicas`."""
    return "".join(f".{name}" for name in replicas_path(resource))


def replicas_path(resource: Resource) -> tuple[str, ...]:
    return _REPLICAS if resource.scale is None else resource.scale.spec_replicas


def scale_of(obj: JsonObject) -> JsonObject:
    """Return the autoscaling/v1 Scale of a Deployment, ReplicaSet or ReplicationController."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    selector = spec.get("selector", {})
    if obj.get("kind") == "ReplicationController":
        selector = {"matchLabels": selector}
    shown = {"replicas": status.get("replicas", 0), "selector": selector_text(selector)}
    return _scale(obj, {"replicas": spec.get("replicas", 0)}, shown)


def _scale(obj: JsonObject, spec: JsonObject, status: JsonObject) -> JsonObject:
    meta = obj["metadata"]
    kept = {
        key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp") if key in meta
    }
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": kept, "spec": spec, "status": status}


def _scaled(obj: JsonObject, scale: JsonObject) -> JsonObject:
    return _with_replicas(_REPLICAS, obj, scale)


def _with_replicas(path: tuple[str, ...], obj: JsonObject, scale: JsonObject) -> JsonObject:
    return with_value(obj, path, scale.get("spec", {}).get("replicas", 0))


def _custom_scale(paths: ScalePaths, obj: JsonObject) -> JsonObject:
    replicas = _at(obj, paths.spec_replicas)
    current = _at(obj, paths.status_replicas)
    status: JsonObject = {"replicas": current if _is_integer(current) else 0}
    selector = _at(obj, paths.selector) if paths.selector else None
    if isinstance(selector, str) and selector:
        status["selector"] = selector
    return _scale(obj, {"replicas": replicas} if _is_integer(replicas) else {}, status)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def with_value(obj: JsonObject, path: tuple[str, ...], value: Any) -> JsonObject:
    """Return the object with `value` at `path`."""
    name, *rest = path
    if rest:
        inner = obj.get(name)
        value = with_value(inner if isinstance(inner, dict) else {}, tuple(rest), value)
    return {**obj, name: value}

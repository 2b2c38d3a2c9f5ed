"""In-place resize of pods: what the subresource `resize` may change, and the resize policies of containers.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePodResize`, `dropNonResizeUpdates`,
`validateResizePolicy`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.objects.critical_pods import MIRROR_POD

from .pod_qos import qos_class

RESIZE = "resize"

_LISTS = ("containers", "initContainers")
_RESIZABLE = ("cpu", "memory")
_POLICIES = ("NotRequired", "RestartContainer")
_KINDS = ("limits", "requests")


def with_resources_only(obj: JsonObject, old: JsonObject) -> None:
    """Take over everything from `old` but the resources of the pod and of its containers, and their resize policies."""
    wanted = obj.get("spec", {})
    spec = dict(old.get("spec", {}))
    for kind in _LISTS:
        if kind in wanted or kind in spec:
            before = {one.get("name"): one for one in spec.get(kind, ())}
            spec[kind] = [_resized(one, before.get(one.get("name"))) for one in wanted.get(kind, ())]
    spec.pop("resources", None)
    if "resources" in wanted:
        spec["resources"] = wanted["resources"]
    obj["spec"] = spec
    obj["status"] = old.get("status", {})
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        obj["metadata"].pop(name, None)
        if name in old["metadata"]:
            obj["metadata"][name] = old["metadata"][name]


def _resized(container: JsonObject, before: JsonObject | None) -> JsonObject:
    if before is None:
        return container
    changeable = ("resources", "resizePolicy")
    kept = {name: value for name, value in before.items() if name not in changeable}
    return kept | {name: container[name] for name in changeable if name in container}


def validate_resize(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Validate what `with_resources_only` has left."""
    spec, before = obj.get("spec", {}), old.get("spec", {})
    if MIRROR_POD in old["metadata"].get("annotations", {}):
        return [field.forbidden("", "static pods cannot be resized")]
    if before.get("os", {}).get("name") == "windows":
        return [field.forbidden("", "windows pods cannot be resized")]
    errors = []
    stored_class = old.get("status", {}).get("qosClass") or qos_class(before)
    if qos_class(spec) != stored_class:
        detail = "Pod QOS Class may not change as a result of resizing"
        errors.append(field.invalid("spec", stored_class, detail))
    if not _is_shown(old):
        errors.append(field.forbidden("spec", "Pod running on node without support for resize"))
    errors += _validate_whole(spec.get("resources"), before.get("resources"))
    order = [error for kind in _LISTS for error in _validate_order(kind, spec.get(kind, ()), before.get(kind, ()))]
    if order:
        return [*errors, *order]
    pairs = {kind: list(zip(spec.get(kind, ()), before.get(kind, ()), strict=True)) for kind in _LISTS}
    for kind in reversed(_LISTS):
        for index, (new, was) in enumerate(pairs[kind]):
            path = f"spec.{kind}[{index}].resources"
            errors += _validate_removals(path, new.get("resources", {}), was.get("resources", {}))
    if any(_other_resources(new) != _other_resources(was) for new, was in pairs["containers"]):
        errors.append(field.forbidden("spec", "only cpu and memory resources are mutable"))
    for index, (new, was) in enumerate(pairs["initContainers"]):
        errors += _validate_init_container(f"spec.initContainers[{index}]", new, was)
    return errors


def _is_shown(pod: JsonObject) -> bool:
    """Whether the kubelet reports the resources of the first container that runs, as those that can resize do."""
    for status in pod.get("status", {}).get("containerStatuses", ()):
        if "running" in status.get("state", {}):
            return "resources" in status
    return True


def _validate_whole(new: JsonObject | None, old: JsonObject | None) -> list[FieldError]:
    """Validate the resources of the pod as a whole."""
    if old is not None and new is None:
        return [field.forbidden("spec.resources", "pod-level resources cannot be removed")]
    errors = [
        field.forbidden(f"spec.resources.{kind}", f"pod-level resource {kind} cannot be removed")
        for kind in _KINDS
        if _removes(kind, new or {}, old or {})
    ]
    if _others(new or {}) != _others(old or {}):
        errors.append(field.forbidden("spec", "only cpu and memory resources are mutable at pod-level"))
    return errors


def _validate_order(kind: str, new: Sequence[JsonObject], old: Sequence[JsonObject]) -> list[FieldError]:
    if len(new) != len(old):
        return [field.forbidden(f"spec.{kind}", f"{kind} may not be added or removed on resize")]
    return [
        field.forbidden(f"spec.{kind}[{index}].name", "containers may not be renamed or reordered on resize")
        for index, (one, was) in enumerate(zip(new, old, strict=True))
        if one.get("name") != was.get("name")
    ]


def _validate_removals(path: str, new: JsonObject, old: JsonObject) -> list[FieldError]:
    return [
        field.forbidden(f"{path}.{kind}", f"resource {kind} cannot be removed")
        for kind in _KINDS
        if _removes(kind, new, old)
    ]


def _removes(kind: str, new: JsonObject, old: JsonObject) -> bool:
    return any(name not in new.get(kind, {}) for name in old.get(kind, {}))


def _validate_init_container(path: str, new: JsonObject, old: JsonObject) -> list[FieldError]:
    errors = []
    if _other_resources(new) != _other_resources(old):
        detail = "only cpu and memory resources for init or sidecar containers are mutable"
        errors.append(field.forbidden(path, detail))
    restarts = any(policy.get("restartPolicy") == "RestartContainer" for policy in new.get("resizePolicy", ()))
    if restarts and new.get("restartPolicy") != "Always" and new != old:
        # It runs once, so it cannot be restarted with other resources.
        detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
        errors.append(field.forbidden(path, detail))
    return errors


def _other_resources(container: JsonObject) -> JsonObject:
    return _others(container.get("resources", {}))


def _others(resources: JsonObject) -> JsonObject:
    """Return resources without amounts of CPU and memory."""
    lists = {
        kind: {name: amount for name, amount in resources.get(kind, {}).items() if name not in _RESIZABLE}
        for kind in _KINDS
    }
    return {name: value for name, value in resources.items() if name not in _KINDS} | lists


def validate_resize_policies(path: str, policies: Sequence[JsonObject], restart_policy: str) -> list[FieldError]:
    """Validate the resize policies of a container in a pod with this restart policy."""
    errors = []
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            errors.append(field.duplicate(f"{path}[{index}]", name))
        seen.add(name)
        errors.extend(field.one_of(path, name, _RESIZABLE) if name else [field.required(path)])
        errors.extend(field.one_of(path, restart, _POLICIES) if restart else [field.required(path)])
        if restart_policy == "Never" and restart != "NotRequired":
            detail = "must be 'NotRequired' when `restartPolicy` is 'Never'"
            errors.append(field.invalid(path, restart, detail))
    return errors

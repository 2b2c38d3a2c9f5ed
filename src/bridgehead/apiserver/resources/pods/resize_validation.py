"""In-place resize of pods: what the subresource `resize` may change, and the resize policies of containers.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePodResize`, `dropNonResizeUpdates`,
`validateResizePolicy`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.resource import FieldError, JsonObject
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
    if MIRROR_POD in old["metadata"].get("annotations", {}):
        return [field.forbidden("", "static pods cannot be resized")]
    spec, before = obj.get("spec", {}), old.get("spec", {})
    errors = []
    if qos_class(spec) != qos_class(before):
        detail = "Pod QOS Class may not change as a result of resizing"
        errors.append(field.invalid("spec", qos_class(spec), detail))
    order = [error for kind in _LISTS for error in _validate_order(kind, spec.get(kind, ()), before.get(kind, ()))]
    if order:
        return [*errors, *order]
    errors.extend(_validate_removals("spec.resources", spec.get("resources", {}), before.get("resources", {})))
    if _other_resources(spec) != _other_resources(before):
        errors.append(field.forbidden("spec", "only cpu and memory resources are mutable"))
    for kind in _LISTS:
        for index, (new, was) in enumerate(zip(spec.get(kind, ()), before.get(kind, ()), strict=True)):
            path = f"spec.{kind}[{index}].resources"
            errors.extend(_validate_removals(path, new.get("resources", {}), was.get("resources", {})))
            if _has_other_change(kind, new, was):
                errors.append(field.forbidden("spec", "only cpu and memory resources are mutable"))
    return errors


def _validate_order(kind: str, new: Sequence[JsonObject], old: Sequence[JsonObject]) -> list[FieldError]:
    if len(new) != len(old):
        return [field.forbidden(f"spec.{kind}", "containers may not be added or removed on resize")]
    if [one.get("name") for one in new] != [one.get("name") for one in old]:
        return [field.forbidden(f"spec.{kind}", "containers may not be renamed or reordered on resize")]
    return []


def _validate_removals(path: str, new: JsonObject, old: JsonObject) -> list[FieldError]:
    return [
        field.forbidden(f"{path}.{kind}", f"resource {kind} cannot be removed")
        for kind in _KINDS
        if any(name in old.get(kind, {}) and name not in new.get(kind, {}) for name in _RESIZABLE)
    ]


def _has_other_change(kind: str, new: JsonObject, old: JsonObject) -> bool:
    """Whether anything but CPU and memory changes, or those of an init container that is not a sidecar."""
    if kind == "initContainers" and old.get("restartPolicy") != "Always":
        return new != old
    return _other_resources(new) != _other_resources(old)


def _other_resources(owner: JsonObject) -> JsonObject:
    """Return the resources of a container or of a pod's spec without amounts of CPU and memory."""
    resources = owner.get("resources", {})
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

"""In-place resize of pods: what the subresource `resize` may change, and the resize policies of containers.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidatePodResize`, `dropNonResizeUpdates`,
`validateResizePolicy`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
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


def validate_resize(pod: Field, old: JsonObject) -> None:
    """Validate what `with_resources_only` has left."""
    spec, before = pod.at("spec", {}), old.get("spec", {})
    if MIRROR_POD in old["metadata"].get("annotations", {}):
        pod.forbidden("static pods cannot be resized")
        return
    if before.get("os", {}).get("name") == "windows":
        pod.forbidden("windows pods cannot be resized")
        return
    stored_class = old.get("status", {}).get("qosClass") or qos_class(before)
    if qos_class(spec.value) != stored_class:
        spec.showing(stored_class).invalid("Pod QOS Class may not change as a result of resizing")
    if not _is_shown(old):
        spec.forbidden("Pod running on node without support for resize")
    _validate_whole(spec, before.get("resources"))
    if spec.must_obey(_validate_order, before):
        _validate_containers(spec, before)


def _validate_containers(spec: Field, old: JsonObject) -> None:
    """Validate the containers of a pod, which are those of the stored pod, `old`, in the same order."""
    init_containers, containers = _pairs("initContainers", spec, old), _pairs("containers", spec, old)
    for container, was in (*init_containers, *containers):
        before = was.get("resources", {})
        resources = container.at("resources", {})
        for kind in _KINDS:
            if _removes(kind, resources.value, before):
                resources.at(kind).forbidden(f"resource {kind} cannot be removed")
    if any(_other_resources(container.value) != _other_resources(was) for container, was in containers):
        spec.forbidden("only cpu and memory resources are mutable")
    for container, was in init_containers:
        _validate_init_container(container, was)


def _pairs(kind: str, spec: Field, old: JsonObject) -> list[tuple[Field, JsonObject]]:
    return list(zip(spec.at(kind).each(), old.get(kind, ()), strict=True))


def _is_shown(pod: JsonObject) -> bool:
    """Whether the kubelet reports the resources of the first container that runs, as those that can resize do."""
    for status in pod.get("status", {}).get("containerStatuses", ()):
        if "running" in status.get("state", {}):
            return "resources" in status
    return True


def _validate_whole(spec: Field, old: JsonObject | None) -> None:
    """Validate the resources of the pod as a whole."""
    resources = spec.at("resources")
    if old is not None and resources.value is None:
        resources.forbidden("pod-level resources cannot be removed")
        return
    for kind in _KINDS:
        if _removes(kind, resources.value or {}, old or {}):
            resources.at(kind).forbidden(f"pod-level resource {kind} cannot be removed")
    if _others(resources.value or {}) != _others(old or {}):
        spec.forbidden("only cpu and memory resources are mutable at pod-level")


def _validate_order(spec: Field, old: JsonObject) -> None:
    for kind in _LISTS:
        containers, before = spec.at(kind, ()), old.get(kind, ())
        if len(containers.value) != len(before):
            containers.forbidden(f"{kind} may not be added or removed on resize")
            continue
        for container, was in zip(containers.each(), before, strict=True):
            if container.get("name") != was.get("name"):
                container.at("name").forbidden("containers may not be renamed or reordered on resize")


def _removes(kind: str, new: JsonObject, old: JsonObject) -> bool:
    return any(name not in new.get(kind, {}) for name in old.get(kind, {}))


def _validate_init_container(container: Field, old: JsonObject) -> None:
    if _other_resources(container.value) != _other_resources(old):
        container.forbidden("only cpu and memory resources for init or sidecar containers are mutable")
    restarts = any(policy.get("restartPolicy") == "RestartContainer" for policy in container.get("resizePolicy", ()))
    if restarts and container.get("restartPolicy") != "Always" and container.value != old:
        # It runs once, so it cannot be restarted with other resources.
        detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
        container.forbidden(detail)


def _other_resources(container: JsonObject) -> JsonObject:
    return _others(container.get("resources", {}))


def _others(resources: JsonObject) -> JsonObject:
    """Return resources without amounts of CPU and memory."""
    lists = {
        kind: {name: amount for name, amount in resources.get(kind, {}).items() if name not in _RESIZABLE}
        for kind in _KINDS
    }
    return {name: value for name, value in resources.items() if name not in _KINDS} | lists


def validate_resize_policies(policies: Field, restart_policy: str) -> None:
    """Validate the resize policies of a container in a pod with this restart policy."""
    seen: set[str] = set()
    for policy in policies.each():
        # Kubernetes names the list in the errors about the fields of a policy.
        name = policies.showing(policy.get("resourceName", ""))
        restart = policies.showing(policy.get("restartPolicy", ""))
        policy.showing(name.value).must_not_repeat(seen)
        name.must_be_set_to_one_of(_RESIZABLE)
        restart.must_be_set_to_one_of(_POLICIES)
        if restart_policy == "Never" and restart.value != "NotRequired":
            restart.invalid("must be 'NotRequired' when `restartPolicy` is 'Never'")

"""Validation of ephemeral containers, which are added to a pod that runs.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `validateEphemeralContainers`, `ValidatePodEphemeralContainersUpdate`.
"""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.objects.critical_pods import MIRROR_POD

from .container_validation import OfPod, validate_container

SUBRESOURCE = "ephemeralcontainers"

_PATH = "spec.ephemeralContainers"
_FORBIDDEN = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
_NOT_ALLOWED = "cannot be set for an Ephemeral Container"


def validate_ephemeral_containers(path: str, spec: JsonObject, pod: OfPod) -> list[FieldError]:
    """Validate the ephemeral containers of a pod spec."""
    if not spec.get("ephemeralContainers"):
        return []
    errors: list[FieldError] = []
    others = {one.get("name") for kind in ("containers", "initContainers") for one in spec.get(kind, ())}
    names = set(others)
    for index, container in enumerate(spec["ephemeralContainers"]):
        item, name = f"{path}[{index}]", container.get("name", "")
        errors += validate_container(item, container, pod)
        if name in names:
            errors.append(field.duplicate(f"{item}.name", name))
        names.add(name)
        target = container.get("targetContainerName")
        if target and target not in others:
            errors.append(field.not_found(f"{item}.targetContainerName", target))
        errors += [field.forbidden(f"{item}.{one}", _NOT_ALLOWED) for one in _FORBIDDEN if container.get(one)]
        errors += [field.forbidden(one, _NOT_ALLOWED) for one in _sub_paths(item, container)]
    return errors


def validate_added(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Validate that ephemeral containers are only added."""
    if MIRROR_POD in old["metadata"].get("annotations", {}):
        return [field.forbidden("", "static pods do not support ephemeral containers")]
    errors = []
    new = {one.get("name"): one for one in obj.get("spec", {}).get("ephemeralContainers", ())}
    for before in old.get("spec", {}).get("ephemeralContainers", ()):
        name = before.get("name")
        if name not in new:
            errors.append(field.forbidden(_PATH, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif new[name] != before:
            errors.append(field.forbidden(_PATH, f'existing ephemeral containers "{name}" may not be changed\n'))
    return errors


def validate_new_pod(spec: JsonObject) -> list[FieldError]:
    return [field.forbidden(_PATH, "cannot be set on create")] if spec.get("ephemeralContainers") else []


def with_ephemeral_only(obj: JsonObject, old: JsonObject) -> None:
    """Take over everything but the ephemeral containers from `old`."""
    added = obj.get("spec", {}).get("ephemeralContainers")
    spec = {key: value for key, value in old.get("spec", {}).items() if key != "ephemeralContainers"}
    obj["spec"] = spec | {"ephemeralContainers": added} if added else spec
    obj["status"] = old.get("status", {})
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        obj["metadata"].pop(name, None)
        if name in old["metadata"]:
            obj["metadata"][name] = old["metadata"][name]


def _sub_paths(path: str, container: JsonObject) -> Iterator[str]:
    for index, mount in enumerate(container.get("volumeMounts", ())):
        for name in ("subPath", "subPathExpr"):
            if mount.get(name):
                yield f"{path}.volumeMounts[{index}].{name}"

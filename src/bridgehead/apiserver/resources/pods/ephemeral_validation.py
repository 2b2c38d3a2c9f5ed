"""Validation of ephemeral containers, which are added to a pod that runs.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `validateEphemeralContainers`, `ValidatePodEphemeralContainersUpdate`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.objects.critical_pods import MIRROR_POD

from .container_validation import OfPod, validate_container

SUBRESOURCE = "ephemeralcontainers"

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


def validate_ephemeral_containers(spec: Field, pod: OfPod) -> None:
    """Validate the ephemeral containers of a pod spec."""
    containers = spec.at("ephemeralContainers")
    if not containers:
        return
    others = {one.get("name") for kind in ("containers", "initContainers") for one in spec.get(kind, ())}
    names = set(others)
    for container in containers.each():
        validate_container(container, pod)
        container.at("name", "").must_not_repeat(names)
        target = container.at("targetContainerName")
        if target and target.value not in others:
            target.not_found()
        for field in container.those_set(*_FORBIDDEN):
            field.forbidden(_NOT_ALLOWED)
        for mount in container.at("volumeMounts").each():
            for path in mount.those_set("subPath", "subPathExpr"):
                path.forbidden(_NOT_ALLOWED)


def validate_added(pod: Field, old: JsonObject) -> None:
    """Validate that ephemeral containers are only added."""
    if MIRROR_POD in old["metadata"].get("annotations", {}):
        pod.forbidden("static pods do not support ephemeral containers")
        return
    containers = pod.at("spec").at("ephemeralContainers", ())
    new = {one.get("name"): one for one in containers.value}
    for before in old.get("spec", {}).get("ephemeralContainers", ()):
        name = before.get("name")
        if name not in new:
            containers.forbidden(f'existing ephemeral containers "{name}" may not be removed\n')
        elif new[name] != before:
            containers.forbidden(f'existing ephemeral containers "{name}" may not be changed\n')


def validate_new_pod(spec: Field) -> None:
    spec.at("ephemeralContainers").must_not_be_set("cannot be set on create")


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

"""Annotations of pods and pod templates that have a meaning, and the fields that replace some of them.

Called by `pods` and `pod_validation`. Pure: no I/O, no clock, no randomness. Source: Kubernetes
`ValidatePodSpecificAnnotations`, `ValidatePodSpecificAnnotationUpdates`, `validateSeccompAnnotationsAndFields`,
`validateAppArmorAnnotationsAndFieldsMatchOnCreate`, `applyAppArmorVersionSkew`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from bridgehead.apiserver.field import Field, FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.keys import check_local_path
from bridgehead.objects.critical_pods import MIRROR_POD

from .pod_containers import each_container, visit_containers
from .security_validation import validate_app_armor

SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_COST = re.compile(r"0|-?[1-9][0-9]{0,9}|-0[0-9]{0,9}")
_LOCALHOST = "localhost/"
# type of a profile -> its values in an annotation
_SECCOMP_VALUES = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default", "docker/default")}
_APP_ARMOR_VALUES = {"Unconfined": ("unconfined",), "RuntimeDefault": ("runtime/default",)}
DEPRECATED_APP_ARMOR = 'deprecated since v1.30; use the "appArmorProfile" field instead'


def validate_pod_annotations(annotations: Field, spec: JsonObject) -> None:
    """Validate annotations by themselves. `spec` is the spec of their pod or template."""
    for key, annotation in annotations.entries():
        value = annotation.value
        if key == MIRROR_POD:
            if not spec.get("nodeName"):
                annotation.invalid("must set spec.nodeName if mirror pod annotation is set")
        elif key == _DELETION_COST:
            if not _COST.fullmatch(value) or not -(2**31) <= int(value) < 2**31:
                annotation.invalid("must be a 32bit integer")
        elif key == SECCOMP_POD or key.startswith(SECCOMP_CONTAINER):
            _validate_seccomp(annotations.at(key))  # another path than that of the other annotations, as in Kubernetes
        elif key.startswith(APP_ARMOR):
            name = key.removeprefix(APP_ARMOR)
            if all(container.get("name") != name for _, container in visit_containers("", spec)):
                annotation.showing(name).invalid("container not found")
            if value not in ("", "runtime/default", "unconfined") and not value.startswith(_LOCALHOST):
                annotation.invalid(f'invalid AppArmor profile name: "{value}"')


def _validate_seccomp(annotation: Field) -> None:
    value = annotation.value
    if value.startswith(_LOCALHOST):
        annotation.showing(value.removeprefix(_LOCALHOST)).must_pass(check_local_path)
    elif not any(value in values for values in _SECCOMP_VALUES.values()):
        annotation.invalid("must be a valid seccomp profile")


def validate_annotation_changes(annotations: Field, old: Mapping[str, str]) -> None:
    """Validate that an update changes no annotation that is read when the pod starts."""
    new = annotations.value
    if new == old:
        return
    for key in (*old, *(key for key in new if key not in old)):
        if new.get(key) == old.get(key):
            continue
        verb = "remove or update" if key in old else "add"
        if key.startswith(APP_ARMOR):
            annotations.entry(key).forbidden(f"may not {verb} AppArmor annotations")
        if key == MIRROR_POD:
            # A node may create and delete mirror pods, so whether a pod is one never changes.
            annotations.entry(key).forbidden(f"may not {verb} mirror pod annotation")


def validate_profile_annotations(spec: Field, annotations: Mapping[str, str]) -> None:
    """Validate that annotations and fields with a profile of a new pod or of a template agree."""
    if not any(key.startswith((SECCOMP_POD, SECCOMP_CONTAINER, APP_ARMOR)) for key in annotations):
        return
    of_pod = spec.at("securityContext")
    containers = [(one.get("name", ""), one.at("securityContext")) for one in each_container(spec)]
    _validate_match(of_pod.at("seccompProfile"), annotations.get(SECCOMP_POD), _SECCOMP_VALUES, "seccomp")
    for name, context in containers:
        value = annotations.get(SECCOMP_CONTAINER + name)
        _validate_match(context.at("seccompProfile"), value, _SECCOMP_VALUES, "seccomp")
    if spec.get("os", {}).get("name") == "windows":
        return
    for name, context in containers:
        profile = context.at("appArmorProfile", of_pod.get("appArmorProfile"))
        _validate_match(profile, annotations.get(APP_ARMOR + name), _APP_ARMOR_VALUES, "apparmor")


def _validate_match(profile: Field, value: str | None, values: Mapping[str, tuple[str, ...]], what: str) -> None:
    """Validate that a profile agrees with an annotation's value, as far as there are both."""
    if profile.value is None or value is None:
        return
    kind = profile.get("type", "")
    if kind == "Localhost" and value.startswith(_LOCALHOST):
        if profile.get("localhostProfile") != value.removeprefix(_LOCALHOST):
            profile.at("localhostProfile").forbidden(f"{what} profile in annotation and field must match")
    elif value not in values.get(kind, ()) and (kind in values or kind == "Localhost"):
        profile.at("type").forbidden(f"{what} type in annotation and field must match")


def set_app_armor_fields(annotations: Mapping[str, str], spec: JsonObject) -> list[FieldError]:
    """Set the profiles of containers that have only the annotation. Return warnings about these annotations."""
    if spec.get("os", {}).get("name") == "windows" or not any(key.startswith(APP_ARMOR) for key in annotations):
        return []
    of_pod = spec.get("securityContext", {}).get("appArmorProfile")
    annotated = Field({}, "metadata.annotations")
    for _, container in visit_containers("", spec):
        key = APP_ARMOR + container.get("name", "")
        if key not in annotations or "appArmorProfile" in container.get("securityContext", {}):
            continue
        profile = _profile_of(annotations[key])
        if profile is not None and profile != of_pod:
            container.setdefault("securityContext", {})["appArmorProfile"] = profile
        if profile is None or profile != of_pod:
            annotated.entry(key).warning(DEPRECATED_APP_ARMOR)
    return annotated.errors


def _profile_of(value: str) -> JsonObject | None:
    """Return the profile that an annotation names, or None if there is no valid one."""
    for kind, values in _APP_ARMOR_VALUES.items():
        if value in values:
            return {"type": kind}
    if not value.startswith(_LOCALHOST):
        return None
    profile = {"type": "Localhost", "localhostProfile": value.removeprefix(_LOCALHOST)}
    return profile if Field(profile).must_obey(validate_app_armor) else None

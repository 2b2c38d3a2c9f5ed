"""Annotations of pods and pod templates that have a meaning, and the fields that replace some of them.

Called by `pods` and `pod_validation`. Pure: no I/O, no clock, no randomness. Source: Kubernetes
`ValidatePodSpecificAnnotations`, `ValidatePodSpecificAnnotationUpdates`, `validateSeccompAnnotationsAndFields`,
`validateAppArmorAnnotationsAndFieldsMatchOnCreate`, `applyAppArmorVersionSkew`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.keys import check_local_path
from bridgehead.objects.critical_pods import MIRROR_POD

from .pod_containers import visit_containers
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


def validate_pod_annotations(path: str, annotations: Mapping[str, str], spec: JsonObject) -> list[FieldError]:
    """Validate the annotations at `path` by themselves. `spec` is the spec of their pod or template."""
    errors = []
    for key, value in annotations.items():
        if key == MIRROR_POD:
            if not spec.get("nodeName"):
                detail = "must set spec.nodeName if mirror pod annotation is set"
                errors.append(field.invalid(f"{path}[{key}]", value, detail))
        elif key == _DELETION_COST:
            if not _COST.fullmatch(value) or not -(2**31) <= int(value) < 2**31:
                errors.append(field.invalid(f"{path}[{key}]", value, "must be a 32bit integer"))
        elif key == SECCOMP_POD or key.startswith(SECCOMP_CONTAINER):
            errors += field.invalid_for(f"{path}.{key}", _seccomp_path(value), _check_seccomp(value))
        elif key.startswith(APP_ARMOR):
            name = key.removeprefix(APP_ARMOR)
            if all(container.get("name") != name for _, container in visit_containers("", spec)):
                errors.append(field.invalid(f"{path}[{key}]", name, "container not found"))
            if value not in ("", "runtime/default", "unconfined") and not value.startswith(_LOCALHOST):
                errors.append(field.invalid(f"{path}[{key}]", value, f'invalid AppArmor profile name: "{value}"'))
    return errors


def _seccomp_path(value: str) -> str:
    return value.removeprefix(_LOCALHOST)


def _check_seccomp(value: str) -> list[str]:
    if any(value in values for values in _SECCOMP_VALUES.values()):
        return []
    if value.startswith(_LOCALHOST):
        return check_local_path(_seccomp_path(value))
    return ["must be a valid seccomp profile"]


def validate_annotation_changes(new: Mapping[str, str], old: Mapping[str, str]) -> list[FieldError]:
    """Validate that an update changes no annotation that is read when the pod starts."""
    if new == old:
        return []
    errors = []
    for key in (*old, *(key for key in new if key not in old)):
        if new.get(key) == old.get(key):
            continue
        verb = "remove or update" if key in old else "add"
        if key.startswith(APP_ARMOR):
            errors.append(field.forbidden(f"metadata.annotations[{key}]", f"may not {verb} AppArmor annotations"))
        if key == MIRROR_POD:
            # A node may create and delete mirror pods, so whether a pod is one never changes.
            errors.append(field.forbidden(f"metadata.annotations[{key}]", f"may not {verb} mirror pod annotation"))
    return errors


def validate_profile_annotations(path: str, annotations: Mapping[str, str], spec: JsonObject) -> list[FieldError]:
    """Validate that annotations and fields with a profile of a new pod or of a template agree. `path` is the spec's."""
    if not any(key.startswith((SECCOMP_POD, SECCOMP_CONTAINER, APP_ARMOR)) for key in annotations):
        return []
    of_pod = spec.get("securityContext", {})
    errors = []
    if SECCOMP_POD in annotations and "seccompProfile" in of_pod:
        item = f"{path}.securityContext.seccompProfile"
        errors += _validate_seccomp_match(item, of_pod["seccompProfile"], annotations[SECCOMP_POD])
    for item, container in visit_containers(path, spec):
        profile = container.get("securityContext", {}).get("seccompProfile")
        value = annotations.get(SECCOMP_CONTAINER + container.get("name", ""))
        if profile is not None and value is not None:
            errors += _validate_seccomp_match(f"{item}.securityContext.seccompProfile", profile, value)
    if spec.get("os", {}).get("name") == "windows":
        return errors
    for item, container in visit_containers(path, spec):
        profile = container.get("securityContext", {}).get("appArmorProfile", of_pod.get("appArmorProfile"))
        value = annotations.get(APP_ARMOR + container.get("name", ""))
        if profile is not None and value is not None:
            path_of_profile = f"{item}.securityContext.appArmorProfile"
            errors += _validate_match(path_of_profile, profile, value, _APP_ARMOR_VALUES, "apparmor")
    return errors


def _validate_seccomp_match(path: str, profile: JsonObject, value: str) -> list[FieldError]:
    return _validate_match(path, profile, value, _SECCOMP_VALUES, "seccomp")


def _validate_match(
    path: str, profile: JsonObject, value: str, values: Mapping[str, tuple[str, ...]], what: str
) -> list[FieldError]:
    kind = profile.get("type", "")
    if kind == "Localhost" and value.startswith(_LOCALHOST):
        if profile.get("localhostProfile") == value.removeprefix(_LOCALHOST):
            return []
        detail = f"{what} profile in annotation and field must match"
        return [field.forbidden(f"{path}.localhostProfile", detail)]
    if value in values.get(kind, ()) or (kind not in values and kind != "Localhost"):
        return []
    return [field.forbidden(f"{path}.type", f"{what} type in annotation and field must match")]


def set_app_armor_fields(annotations: Mapping[str, str], spec: JsonObject) -> list[FieldError]:
    """Set the profiles of containers that have only the annotation. Return warnings about these annotations."""
    if spec.get("os", {}).get("name") == "windows" or not any(key.startswith(APP_ARMOR) for key in annotations):
        return []
    of_pod = spec.get("securityContext", {}).get("appArmorProfile")
    warnings = []
    for _, container in visit_containers("", spec):
        key = APP_ARMOR + container.get("name", "")
        if key not in annotations or "appArmorProfile" in container.get("securityContext", {}):
            continue
        profile = _profile_of(annotations[key])
        if profile is not None and profile != of_pod:
            container.setdefault("securityContext", {})["appArmorProfile"] = profile
        if profile is None or profile != of_pod:
            path = f"metadata.annotations[{key}]"
            warnings.append(FieldError("", path, DEPRECATED_APP_ARMOR, is_warning=True))
    return warnings


def _profile_of(value: str) -> JsonObject | None:
    """Return the profile that an annotation names, or None if there is no valid one."""
    for kind, values in _APP_ARMOR_VALUES.items():
        if value in values:
            return {"type": kind}
    if not value.startswith(_LOCALHOST):
        return None
    profile = {"type": "Localhost", "localhostProfile": value.removeprefix(_LOCALHOST)}
    return None if validate_app_armor("", profile) else profile

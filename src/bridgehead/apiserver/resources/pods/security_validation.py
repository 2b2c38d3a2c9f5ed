"""Validation of the security contexts of pods, pod templates and containers.

Called by `pod_validation` and `container_validation`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `validatePodSpecSecurityContext`, `validateHostUsers` and `ValidateSecurityContext`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.keys import check_local_path

from .pod_containers import visit_containers
from .windows_validation import validate_windows_options

_HIGHEST_ID = 2**31 - 1
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_PROC_MOUNTS = ("Default", "Unmasked")
_GROUP_CHANGE_POLICIES = ("Always", "OnRootMismatch")
_GROUPS_POLICIES = ("Merge", "Strict")
# Kubernetes has "MountOption" too, with a feature gate that is off by default: SELinuxMount.
_SELINUX_CHANGE_POLICIES = ("Recursive",)
_SYSCTL_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = rf"^({_SYSCTL_SEGMENT}[\./])*{_SYSCTL_SEGMENT}$"
_MAX_SYSCTL_CHARACTERS = 253
_MAX_PROFILE_BYTES = 4095  # PATH_MAX less the final NUL
# The fields of Kubernetes' internal types, which errors show, with their zero values.
_PROFILE: Mapping[str, Any] = {"type": "", "localhostProfile": None}
_CONTEXT = (
    *("capabilities", "privileged", "seLinuxOptions", "windowsOptions", "runAsUser", "runAsGroup", "runAsNonRoot"),
    *("readOnlyRootFilesystem", "allowPrivilegeEscalation", "procMount", "seccompProfile", "appArmorProfile"),
)
_PARTS_OF_CONTEXT: Mapping[str, Mapping[str, Any]] = {
    "capabilities": dict.fromkeys(("add", "drop")),
    "seLinuxOptions": dict.fromkeys(("user", "role", "type", "level"), ""),
    "windowsOptions": dict.fromkeys(("gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName", "hostProcess")),
    "seccompProfile": _PROFILE,
    "appArmorProfile": _PROFILE,
}
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "fs.mqueue.")


def validate_pod_security_context(path: str, spec: JsonObject) -> list[FieldError]:
    """Validate a pod's security context, and against its host namespaces. `path` is the path of the pod spec."""
    context = spec.get("securityContext", {})
    item = f"{path}.securityContext"
    errors = _validate_ids(item, context, ("fsGroup", "runAsUser", "runAsGroup"))
    for index, group in enumerate(context.get("supplementalGroups", ())):
        errors.extend(field.within(f"{item}.supplementalGroups[{index}]", group, 0, _HIGHEST_ID))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(field.invalid(f"{item}.shareProcessNamespace", True, detail))
    errors.extend(_validate_sysctls(f"{item}.sysctls", context.get("sysctls", ()), spec))
    errors.extend(_validate_choice(item, context, "fsGroupChangePolicy", _GROUP_CHANGE_POLICIES))
    errors.extend(_validate_seccomp(f"{item}.seccompProfile", context.get("seccompProfile")))
    errors.extend(validate_windows_options(f"{item}.windowsOptions", context.get("windowsOptions")))
    errors.extend(validate_app_armor(f"{item}.appArmorProfile", context.get("appArmorProfile")))
    errors.extend(_validate_choice(item, context, "supplementalGroupsPolicy", _GROUPS_POLICIES))
    errors.extend(_validate_choice(item, context, "seLinuxChangePolicy", _SELINUX_CHANGE_POLICIES))
    return errors


def validate_security_context(path: str, context: JsonObject, *, host_users: bool) -> list[FieldError]:
    """Validate a container's security context. `host_users` is the pod's `hostUsers`."""
    errors = _validate_ids(path, context, ("runAsUser", "runAsGroup"))
    errors.extend(_validate_choice(path, context, "procMount", _PROC_MOUNTS))
    if host_users and context.get("procMount") == "Unmasked":
        errors.append(field.invalid(f"{path}.procMount", "Unmasked", "`hostUsers` must be false to use `Unmasked`"))
    errors.extend(_validate_seccomp(f"{path}.seccompProfile", context.get("seccompProfile")))
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            errors.append(field.invalid(path, _shown(context), detail))
        if "CAP_SYS_ADMIN" in context.get("capabilities", {}).get("add", ()):
            detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            errors.append(field.invalid(path, _shown(context), detail))
    errors.extend(validate_windows_options(f"{path}.windowsOptions", context.get("windowsOptions")))
    return [*errors, *validate_app_armor(f"{path}.appArmorProfile", context.get("appArmorProfile"))]


def _shown(context: JsonObject) -> JsonObject:
    """Return a container's security context as errors show it."""
    parts = {
        name: field.internal_value(context[name], fields)
        for name, fields in _PARTS_OF_CONTEXT.items()
        if name in context
    }
    return field.internal_value(context | parts, dict.fromkeys(_CONTEXT))


def _validate_ids(path: str, context: JsonObject, names: Sequence[str]) -> list[FieldError]:
    errors = []
    for name in names:
        if name in context:
            errors.extend(field.within(f"{path}.{name}", context[name], 0, _HIGHEST_ID))
    return errors


def _validate_choice(path: str, context: JsonObject, name: str, supported: Sequence[str]) -> list[FieldError]:
    return field.one_of(f"{path}.{name}", context[name], supported) if name in context else []


def _validate_sysctls(path: str, sysctls: Sequence[JsonObject], spec: JsonObject) -> list[FieldError]:
    errors = []
    names: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        item, name = f"{path}[{index}].name", sysctl.get("name", "")
        if not name:
            errors.append(field.required(item))
        elif len(name) > _MAX_SYSCTL_CHARACTERS or not re.fullmatch(_SYSCTL, name):
            detail = f"must have at most {_MAX_SYSCTL_CHARACTERS} characters and match regex {_SYSCTL}"
            errors.append(field.invalid(item, name, detail))
        elif name in names:
            errors.append(field.duplicate(item, name))
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            errors.append(field.invalid(item, name, "may not be specified when 'hostNetwork' is true"))
        if spec.get("hostIPC") and (dotted == "kernel.sem" or dotted.startswith(_IPC_SYSCTLS)):
            errors.append(field.invalid(item, name, "may not be specified when 'hostIPC' is true"))
        names.add(name)
    return errors


def _validate_seccomp(path: str, profile: JsonObject | None) -> list[FieldError]:
    if profile is None:
        return []
    kind, name = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        errors = [field.required(f"{path}.type", "type is required when seccompProfile is set")]
    else:
        errors = field.one_of(f"{path}.type", kind, _PROFILES)
    item = f"{path}.localhostProfile"
    if kind != "Localhost":
        if name is not None:
            shown = field.internal_value(profile, _PROFILE)
            errors.append(field.invalid(item, shown, "can only be set when seccomp type is Localhost"))
    elif name is None:
        errors.append(field.required(item, "must be set when seccomp type is Localhost"))
    else:
        errors.extend(field.invalid_for(item, name, check_local_path(name)))
    return errors


def validate_app_armor(path: str, profile: JsonObject | None) -> list[FieldError]:
    if profile is None:
        return []
    kind, name = profile.get("type", ""), profile.get("localhostProfile")
    item = f"{path}.localhostProfile"
    if not kind:
        return [field.required(f"{path}.type", "type is required when appArmorProfile is set")]
    if kind != "Localhost":
        errors = field.one_of(f"{path}.type", kind, _PROFILES)
        if name is not None and not errors:
            errors.append(field.invalid(item, name, "can only be set when AppArmor type is Localhost"))
        return errors
    if name is None or name == "":
        return [field.required(item, "must be set when AppArmor type is Localhost")]
    errors = []
    if name.strip() != name:
        errors.append(field.invalid(item, name, "must not be padded with whitespace"))
    if len(name.encode()) > _MAX_PROFILE_BYTES:
        errors.append(field.too_long(item, _MAX_PROFILE_BYTES))
    return errors


def validate_host_users(path: str, spec: JsonObject) -> list[FieldError]:
    """Validate that a pod with its own user namespace uses no other namespace of the host, and no block device."""
    if spec.get("hostUsers", True):
        return []
    shared = {"hostNetwork": "hostNetwork", "HostPID": "hostPID", "HostIPC": "hostIPC"}
    found = [f"{path}.{name}" for name, key in shared.items() if spec.get(key)]
    found += [f"{item}.volumeDevices" for item, one in visit_containers(path, spec) if one.get("volumeDevices")]
    return [field.forbidden(one, "when `hostUsers` is false") for one in found]

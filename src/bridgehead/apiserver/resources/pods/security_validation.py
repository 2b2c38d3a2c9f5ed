"""Validation of the security contexts of pods, pod templates and containers.

Called by `pod_validation` and `container_validation`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `validatePodSpecSecurityContext`, `validateHostUsers` and `ValidateSecurityContext`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bridgehead.apiserver.field import Field, internal_value
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.keys import check_local_path

from .pod_containers import each_container
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


def validate_pod_security_context(spec: Field) -> None:
    """Validate the security context of a pod spec, and against its host namespaces."""
    context = spec.at("securityContext")
    for number in (*context.those_set("fsGroup", "runAsUser", "runAsGroup"), *context.at("supplementalGroups").each()):
        number.must_be_within(0, _HIGHEST_ID)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        context.at("shareProcessNamespace").showing(True).invalid(detail)
    if not context:
        return
    _validate_sysctls(context.at("sysctls"), spec.value)
    context.at("fsGroupChangePolicy").must_be_one_of(_GROUP_CHANGE_POLICIES)
    context.at("seccompProfile").must_obey(_validate_seccomp)
    context.at("windowsOptions").must_obey(validate_windows_options)
    context.at("appArmorProfile").must_obey(validate_app_armor)
    context.at("supplementalGroupsPolicy").must_be_one_of(_GROUPS_POLICIES)
    context.at("seLinuxChangePolicy").must_be_one_of(_SELINUX_CHANGE_POLICIES)


def validate_security_context(context: Field, *, host_users: bool) -> None:
    """Validate a container's security context. `host_users` is the pod's `hostUsers`."""
    if not context:
        return
    proc_mount = context.at("procMount")
    for number in context.those_set("runAsUser", "runAsGroup"):
        number.must_be_within(0, _HIGHEST_ID)
    proc_mount.must_be_one_of(_PROC_MOUNTS)
    if host_users and proc_mount.value == "Unmasked":
        proc_mount.invalid("`hostUsers` must be false to use `Unmasked`")
    context.at("seccompProfile").must_obey(_validate_seccomp)
    if context.get("allowPrivilegeEscalation") is False:
        shown = context.showing(_shown(context.value))
        if context.get("privileged"):
            shown.invalid("cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
        if "CAP_SYS_ADMIN" in context.get("capabilities", {}).get("add", ()):
            shown.invalid("cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
    context.at("windowsOptions").must_obey(validate_windows_options)
    context.at("appArmorProfile").must_obey(validate_app_armor)


def _shown(context: JsonObject) -> JsonObject:
    """Return a container's security context as errors show it."""
    parts = {
        name: internal_value(context[name], fields) for name, fields in _PARTS_OF_CONTEXT.items() if name in context
    }
    return internal_value(context | parts, dict.fromkeys(_CONTEXT))


def _validate_sysctls(sysctls: Field, spec: JsonObject) -> None:
    names: set[str] = set()
    for sysctl in sysctls.each():
        name = sysctl.at("name", "")
        if name.must_be_set():
            if len(name.value) > _MAX_SYSCTL_CHARACTERS or not re.fullmatch(_SYSCTL, name.value):
                name.invalid(f"must have at most {_MAX_SYSCTL_CHARACTERS} characters and match regex {_SYSCTL}")
            else:
                name.must_not_repeat(names)
        dotted = name.value.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            name.invalid("may not be specified when 'hostNetwork' is true")
        if spec.get("hostIPC") and (dotted == "kernel.sem" or dotted.startswith(_IPC_SYSCTLS)):
            name.invalid("may not be specified when 'hostIPC' is true")


def _validate_seccomp(profile: Field) -> None:
    kind, name = profile.at("type"), profile.at("localhostProfile")
    if kind.must_be_set("type is required when seccompProfile is set"):
        kind.must_be_one_of(_PROFILES)
    if kind.value == "Localhost":
        name.must_exist("must be set when seccomp type is Localhost")
        name.must_pass(check_local_path)
    elif name.value is not None:
        shown = internal_value(profile.value, _PROFILE)
        name.showing(shown).invalid("can only be set when seccomp type is Localhost")


def validate_app_armor(profile: Field) -> None:
    kind, name = profile.at("type"), profile.at("localhostProfile")
    if not kind.must_be_set("type is required when appArmorProfile is set"):
        return
    if kind.value != "Localhost":
        if kind.must_be_one_of(_PROFILES) and name.value is not None:
            name.invalid("can only be set when AppArmor type is Localhost")
    elif name.must_be_set("must be set when AppArmor type is Localhost"):
        if name.value.strip() != name.value:
            name.invalid("must not be padded with whitespace")
        name.must_have_at_most_bytes(_MAX_PROFILE_BYTES)


def validate_host_users(spec: Field) -> None:
    """Validate that a pod with its own user namespace uses no other namespace of the host, and no block device."""
    if spec.get("hostUsers", True):
        return
    detail = "when `hostUsers` is false"
    # The names that the errors have in Kubernetes, and the fields' own.
    for name, key in {"hostNetwork": "hostNetwork", "HostPID": "hostPID", "HostIPC": "hostIPC"}.items():
        if spec.get(key):
            spec.at(name).forbidden(detail)
    for container in each_container(spec):
        container.at("volumeDevices").must_not_be_set(detail)

"""Validation of `spec.os`, of the fields that it forbids, and of the options for Windows.

The resources of a pod as a whole are in `pod_level_resources`.
Called by `pod_validation` and `security_validation`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `validateOS`, `validateLinux`, `validateWindows`, `validateWindowsHostProcessPod`,
`validateWindowsSecurityContextOptions`.
"""

from __future__ import annotations

import re

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.objects.names import check_dns1123_subdomain

from .pod_containers import visit_containers

_SYSTEMS = ("linux", "windows")
# Fields of pod specs that a pod for Windows may not have, in the order of Kubernetes' errors; an absent value of a
# plain boolean is the same as false.
_OF_POD = (
    *("securityContext.appArmorProfile", "securityContext.seLinuxOptions", "hostUsers", "hostPID", "hostIPC"),
    *("securityContext.seccompProfile", "securityContext.fsGroup", "securityContext.fsGroupChangePolicy"),
    *("securityContext.sysctls", "shareProcessNamespace", "securityContext.runAsUser", "securityContext.runAsGroup"),
    *("securityContext.supplementalGroups", "securityContext.supplementalGroupsPolicy"),
    "securityContext.seLinuxChangePolicy",
)
_PLAIN = ("hostPID", "hostIPC", "securityContext.sysctls")
_OF_CONTAINER = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged"),
    *("allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"),
)
_MAX_CREDENTIAL_KIB = 64
_MAX_DOMAIN, _MAX_USER = 256, 104
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NETBIOS_DOMAIN = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS_DOMAIN = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_BAD_USER = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_BLANK_USER = re.compile(r"[. ]+")


def validate_os(path: str, spec: JsonObject) -> list[FieldError]:
    """Validate the operating system of a pod spec, and that the spec has no field of another one."""
    system = spec.get("os")
    if system is None:
        return []
    name = system.get("name", "")
    if not name:
        return [field.required(f"{path}.os.name", "cannot be empty")]
    if errors := field.one_of(f"{path}.os", name, _SYSTEMS):
        return errors
    return _validate_linux(path, spec) if name == "linux" else _validate_windows(path, spec)


def _validate_linux(path: str, spec: JsonObject) -> list[FieldError]:
    owners = [(path, spec), *visit_containers(path, spec)]
    return [
        field.forbidden(f"{item}.securityContext.windowsOptions", "windows options cannot be set for a linux pod")
        for item, owner in owners
        if "windowsOptions" in owner.get("securityContext", {})
    ]


def _validate_windows(path: str, spec: JsonObject) -> list[FieldError]:
    found = [f"{path}.{name}" for name in _OF_POD if _has(spec, name)]
    for item, container in visit_containers(path, spec):
        context = container.get("securityContext", {})
        found += [f"{item}.securityContext.{name}" for name in _OF_CONTAINER if name in context]
    return [field.forbidden(one, "cannot be set for a windows pod") for one in found]


def _has(spec: JsonObject, name: str) -> bool:
    inner, _, last = name.rpartition(".")
    owner = spec.get(inner, {}) if inner else spec
    return bool(owner.get(last)) if name in _PLAIN else last in owner


def validate_host_process(path: str, spec: JsonObject) -> list[FieldError]:
    """Validate that either all containers are processes of the host, or none is, and that they use its network."""
    of_pod = _host_process(spec)
    errors = []
    counted: list[bool] = []
    for item, container in visit_containers(path, spec):
        own = _host_process(container)
        if own is not None and of_pod is not None and own != of_pod:
            detail = f"pod hostProcess value must be identical if both are specified, was {str(of_pod).lower()}"
            errors.append(field.invalid(f"{item}.securityContext.windowsOptions.hostProcess", own, detail))
        counted.append(bool(of_pod if own is None else own))
    if not any(counted):
        return errors
    if not all(counted):
        detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(field.invalid(path, "", detail))
    if not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(field.invalid(f"{path}.hostNetwork", False, detail))
    return errors


def _host_process(owner: JsonObject) -> bool | None:
    value: bool | None = owner.get("securityContext", {}).get("windowsOptions", {}).get("hostProcess")
    return value


def validate_windows_options(path: str, options: JsonObject | None) -> list[FieldError]:
    """Validate the `windowsOptions` of a security context."""
    if options is None:
        return []
    errors = []
    if (name := options.get("gmsaCredentialSpecName")) is not None:
        errors += field.invalid_for(f"{path}.gmsaCredentialSpecName", name, check_dns1123_subdomain(name))
    if (credentials := options.get("gmsaCredentialSpec")) is not None:
        item = f"{path}.gmsaCredentialSpec"
        if not credentials:
            errors.append(field.invalid(item, credentials, "gmsaCredentialSpec cannot be an empty string"))
        elif len(credentials.encode()) > _MAX_CREDENTIAL_KIB * 1024:
            detail = f"gmsaCredentialSpec size must be under {_MAX_CREDENTIAL_KIB} KiB"
            errors.append(field.invalid(item, credentials, detail))
    if (user := options.get("runAsUserName")) is not None:
        errors += field.invalid_for(f"{path}.runAsUserName", user, _check_user(user))
    return errors


def _check_user(name: str) -> list[str]:
    """Check a name of the form `DOMAIN\\USER` or `USER`."""
    if not name:
        return ["runAsUserName cannot be an empty string"]
    if _CONTROL.search(name):
        return ["runAsUserName cannot contain control characters"]
    if name.count("\\") > 1:
        return ["runAsUserName cannot contain more than one backslash"]
    domain, separator, user = name.rpartition("\\")
    reasons = []
    if len(domain.encode()) >= _MAX_DOMAIN:
        reasons.append(f"runAsUserName's Domain length must be under {_MAX_DOMAIN} characters")
    if separator and not _NETBIOS_DOMAIN.fullmatch(domain) and not _DNS_DOMAIN.fullmatch(domain):
        reasons.append("runAsUserName's Domain doesn't match the NetBios nor the DNS format")
    if not user:
        reasons.append("runAsUserName's User cannot be empty")
    elif len(user.encode()) > _MAX_USER:
        reasons.append(f"runAsUserName's User length must not be longer than {_MAX_USER} characters")
    if _BLANK_USER.fullmatch(user):
        reasons.append("runAsUserName's User cannot contain only periods or spaces")
    if _BAD_USER.search(user):
        reasons.append("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    return reasons

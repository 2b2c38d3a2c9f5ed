"""Validation of `spec.os`, of the fields that it forbids, and of the options for Windows.

Called by `pod_validation` and `security_validation`. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `validateOS`, `validateLinux`, `validateWindows`, `validateWindowsHostProcessPod`,
`validateWindowsSecurityContextOptions`.
"""

from __future__ import annotations

import re

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.objects.names import check_dns1123_subdomain

from .pod_containers import each_container

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
_NOT_FOR_WINDOWS = "cannot be set for a windows pod"
_MAX_CREDENTIAL_KIB = 64
_MAX_DOMAIN, _MAX_USER = 256, 104
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NETBIOS_DOMAIN = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS_DOMAIN = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_BAD_USER = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_BLANK_USER = re.compile(r"[. ]+")


def validate_os(spec: Field) -> None:
    """Validate the operating system of a pod spec, and that the spec has no field of another one."""
    if "os" not in spec.value:
        return
    system = spec.at("os")
    name = system.at("name")
    # Kubernetes does not name the field in an error about an unknown system.
    if name.must_be_set("cannot be empty") and system.showing(name.value).must_be_one_of(_SYSTEMS):
        if name.value == "linux":
            _validate_linux(spec)
        else:
            _validate_windows(spec)


def _validate_linux(spec: Field) -> None:
    for owner in (spec, *each_container(spec)):
        options = owner.at("securityContext").at("windowsOptions")
        options.must_not_exist("windows options cannot be set for a linux pod")


def _validate_windows(spec: Field) -> None:
    for name in _OF_POD:
        if _has(spec.value, name):
            spec.at(name).forbidden(_NOT_FOR_WINDOWS)
    for container in each_container(spec):
        container.at("securityContext", {}).must_have_none_of(_OF_CONTAINER, _NOT_FOR_WINDOWS)


def _has(spec: JsonObject, name: str) -> bool:
    inner, _, last = name.rpartition(".")
    owner = spec.get(inner, {}) if inner else spec
    return bool(owner.get(last)) if name in _PLAIN else last in owner


def validate_host_process(spec: Field) -> None:
    """Validate that either all containers are processes of the host, or none is, and that they use its network."""
    of_pod = _host_process(spec.value)
    counted: list[bool] = []
    for container in each_container(spec):
        own = _host_process(container.value)
        if own is not None and of_pod is not None and own != of_pod:
            detail = f"pod hostProcess value must be identical if both are specified, was {str(of_pod).lower()}"
            container.at("securityContext").at("windowsOptions").at("hostProcess").invalid(detail)
        counted.append(bool(of_pod if own is None else own))
    if not any(counted):
        return
    if not all(counted):
        detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        spec.showing("").invalid(detail)
    if not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        spec.at("hostNetwork").showing(False).invalid(detail)


def _host_process(owner: JsonObject) -> bool | None:
    value: bool | None = owner.get("securityContext", {}).get("windowsOptions", {}).get("hostProcess")
    return value


def validate_windows_options(options: Field) -> None:
    """Validate the `windowsOptions` of a security context."""
    credentials = options.at("gmsaCredentialSpec")
    options.at("gmsaCredentialSpecName").must_pass(check_dns1123_subdomain)
    if credentials.value == "":
        credentials.invalid("gmsaCredentialSpec cannot be an empty string")
    elif credentials and len(credentials.value.encode()) > _MAX_CREDENTIAL_KIB * 1024:
        credentials.invalid(f"gmsaCredentialSpec size must be under {_MAX_CREDENTIAL_KIB} KiB")
    options.at("runAsUserName").must_pass(_check_user)


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

"""Pods for one operating system, options for Windows, and user namespaces."""

from __future__ import annotations

import pytest

from .checks import refusal_of

W = "spec.securityContext.windowsOptions"
NOT_WINDOWS = "Forbidden: cannot be set for a windows pod"
NOT_LINUX = "Forbidden: windows options cannot be set for a linux pod"


def options(text: str) -> str:
    return f"{{securityContext: {{windowsOptions: {{{text}}}}}}}"


CASES = [
    ("{os: {}}", ["spec.os.name: Required value: cannot be empty"]),
    ("{os: {name: plan9}}", ['spec.os: Unsupported value: "plan9": supported values: "linux", "windows"']),
    ("{os: {name: linux}}", []),
    ("{os: {name: linux}, securityContext: {windowsOptions: {}}, initContainers: [{name: i, image: b, "
     "securityContext: {windowsOptions: {}}}]}", [
        f"{W}: {NOT_LINUX}", f"spec.initContainers[0].securityContext.windowsOptions: {NOT_LINUX}"]),
    ("{os: {name: windows}, hostPID: false, shareProcessNamespace: false, securityContext: {runAsUser: 1, "
     "appArmorProfile: {type: Unconfined}}, containers: [{name: a, image: b, securityContext: {privileged: false, "
     "capabilities: {}}}]}", [
        f"spec.securityContext.appArmorProfile: {NOT_WINDOWS}",
        f"spec.shareProcessNamespace: {NOT_WINDOWS}",
        f"spec.securityContext.runAsUser: {NOT_WINDOWS}",
        f"spec.containers[0].securityContext.capabilities: {NOT_WINDOWS}",
        f"spec.containers[0].securityContext.privileged: {NOT_WINDOWS}"]),
    ("{os: {name: windows}, hostIPC: true, securityContext: {sysctls: [{name: a.b, value: c}]}}", [
        f"spec.hostIPC: {NOT_WINDOWS}", f"spec.securityContext.sysctls: {NOT_WINDOWS}"]),
    (options("hostProcess: true"), [
        "spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers"]),
    ("{hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true}}}", []),
    ("{hostNetwork: true, containers: [{name: a, image: b, securityContext: {windowsOptions: {hostProcess: true}}}, "
     "{name: c, image: b}]}", [
        'spec: Invalid value: "": If pod contains any hostProcess containers then all containers must be HostProcess '
        "containers"]),
    ("{hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true}}, containers: [{name: a, image: b, "
     "securityContext: {windowsOptions: {hostProcess: false}}}]}", [
        "spec.containers[0].securityContext.windowsOptions.hostProcess: Invalid value: false: pod hostProcess value "
        "must be identical if both are specified, was true"]),
    (options("gmsaCredentialSpec: '', runAsUserName: ''"), [
        f'{W}.gmsaCredentialSpec: Invalid value: "": gmsaCredentialSpec cannot be an empty string',
        f'{W}.runAsUserName: Invalid value: "": runAsUserName cannot be an empty string']),
    (options(r"runAsUserName: 'NT AUTHORITY\NETWORK SERVICE', gmsaCredentialSpecName: a.b, gmsaCredentialSpec: c"), []),
    (options(r"runAsUserName: 'a.example.com\x'"), []),
    (options(r'runAsUserName: "a\tb"'), [
        f'{W}.runAsUserName: Invalid value: "a\\tb": runAsUserName cannot contain control characters']),
    (options(r"runAsUserName: 'a\b\c'"), [
        f'{W}.runAsUserName: Invalid value: "a\\\\b\\\\c": runAsUserName cannot contain more than one backslash']),
    (options(r"runAsUserName: '\'"), [
        f'{W}.runAsUserName: Invalid value: "\\\\": runAsUserName\'s Domain doesn\'t match the NetBios nor the DNS '
        "format",
        f'{W}.runAsUserName: Invalid value: "\\\\": runAsUserName\'s User cannot be empty']),
    (options("runAsUserName: '. .'"), [
        f'{W}.runAsUserName: Invalid value: ". .": runAsUserName\'s User cannot contain only periods or spaces']),
    (options("runAsUserName: 'a@b'"), [
        f'{W}.runAsUserName: Invalid value: "a@b": runAsUserName\'s User cannot contain the following characters: '
        '"/\\:;|=,+*?<>@[]']),
    (options(f"runAsUserName: {'u' * 105}"), [
        f'{W}.runAsUserName: Invalid value: "{"u" * 105}": runAsUserName\'s User length must not be longer than 104 '
        "characters"]),
    ("{hostUsers: false, hostNetwork: true, hostPID: true, "
     "volumes: [{name: v, persistentVolumeClaim: {claimName: p}}], "
     "containers: [{name: a, image: b, volumeDevices: [{name: v, devicePath: /dev/x}]}]}", [
        f"spec.{name}: Forbidden: when `hostUsers` is false"
        for name in ("hostNetwork", "HostPID", "containers[0].volumeDevices")]),
    ("{securityContext: {seLinuxChangePolicy: MountOption}}", [
        'spec.securityContext.seLinuxChangePolicy: Unsupported value: "MountOption": supported values: "Recursive"']),
    ("{containers: [{name: a, image: b, securityContext: {windowsOptions: {gmsaCredentialSpec: ''}}}]}", [
        'spec.containers[0].securityContext.windowsOptions.gmsaCredentialSpec: Invalid value: "": gmsaCredentialSpec '
        "cannot be an empty string"]),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), CASES)
def test_refusals(fields: str, expected: list[str]) -> None:
    assert refusal_of(fields) == expected


def test_long_values() -> None:
    text = "x" * (64 * 1024 + 1)
    (error,) = refusal_of(options(f"gmsaCredentialSpec: {text}"))
    assert error.endswith("gmsaCredentialSpec size must be under 64 KiB")
    domain = ".".join(["d" * 63] * 4)
    (error, _) = refusal_of(options(f"runAsUserName: '{domain}-\\u'"))
    assert error.endswith("runAsUserName's Domain length must be under 256 characters")

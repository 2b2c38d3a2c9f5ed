"""The checks of the level `baseline`, which prevents known privilege escalations.

Pure: no I/O, no clock, no randomness. Source: Kubernetes pod-security-admission/policy/check_*.go.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject

from .violations import (
    Check,
    Violation,
    containers_of,
    listed,
    names_of,
    plural,
    quoted,
    security_of,
    setters,
)

_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_DEFAULT_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
PROFILES = (None, "RuntimeDefault", "Localhost")
_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    }
)
# The first version with further sysctls, and these.
_MORE_SYSCTLS = (
    (27, ("net.ipv4.ip_local_reserved_ports",)),
    (
        29,
        (
            "net.ipv4.tcp_keepalive_time",
            "net.ipv4.tcp_fin_timeout",
            "net.ipv4.tcp_keepalive_intvl",
            "net.ipv4.tcp_keepalive_probes",
        ),
    ),
    (32, ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")),
)
_SELINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})


def app_armor_profile(metadata: JsonObject, spec: JsonObject) -> Violation | None:
    def value_of(owner: JsonObject) -> str | None:
        profile = security_of(owner, "appArmorProfile")
        return None if profile is None else str(profile.get("type", ""))

    who = [text] if (text := setters(spec, lambda owner: value_of(owner) not in PROFILES)) else []
    values = {value_of(owner) or "" for owner in (spec, *containers_of(spec)) if value_of(owner) not in PROFILES}
    annotations = sorted(
        f'{key}="{value}"'
        for key, value in metadata.get("annotations", {}).items()
        if key.startswith(_APP_ARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    if annotations:
        who.append(plural("annotation", annotations))
    if not who:
        return None
    all_values = [*sorted(values), *annotations]
    detail = f"{' and '.join(who)} must not set AppArmor profile type to {quoted(all_values)}"
    return Violation(plural("forbidden AppArmor profile", all_values), detail)


def capabilities(metadata: JsonObject, spec: JsonObject) -> Violation | None:
    bad, added = [], set()
    for container in containers_of(spec):
        extra = set(security_of(container, "capabilities", "add") or ()) - _DEFAULT_CAPABILITIES
        if extra:
            bad.append(container)
            added |= extra
    if not bad:
        return None
    added_text = f"{quoted(sorted(added))} in securityContext.capabilities.add"
    return Violation("non-default capabilities", f"{listed('container', names_of(bad))} must not include {added_text}")


def host_namespaces(metadata: JsonObject, spec: JsonObject) -> Violation | None:
    found = [f"{key}=true" for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)]
    return Violation("host namespaces", ", ".join(found)) if found else None


def host_path_volumes(metadata: JsonObject, spec: JsonObject) -> Violation | None:
    names = names_of(volume for volume in spec.get("volumes", ()) if "hostPath" in volume)
    return Violation("hostPath volumes", listed("volume", names)) if names else None


def host_ports(metadata: JsonObject, spec: JsonObject) -> Violation | None:
    bad, ports = [], set()
    for container in containers_of(spec):
        used = {str(port["hostPort"]) for port in container.get("ports", ()) if port.get("hostPort")}
        if used:
            bad.append(container)
            ports |= used
    if not bad:
        return None
    verb = "uses" if len(bad) == 1 else "use"
    shown = f"{plural('hostPort', sorted(ports))} {', '.join(sorted(ports))}"
    return Violation("hostPort", f"{listed('container', names_of(bad))} {verb} {shown}")


def host_probes_and_host_lifecycle(metadata: JsonObject, spec: JsonObject) -> Violation | None:
    bad, hosts = set(), set()
    for container in containers_of(spec):
        handlers = [container.get(kind) or {} for kind in ("livenessProbe", "readinessProbe", "startupProbe")]
        handlers += [(container.get("lifecycle") or {}).get(kind) or {} for kind in ("postStart", "preStop")]
        found = {(handler.get(kind) or {}).get("host", "") for handler in handlers for kind in ("httpGet", "tcpSocket")}
        if found := found - {""}:
            bad.add(str(container.get("name", "")))
            hosts |= found
    if not bad:
        return None
    noun, verb = "probe or lifecycle host", "uses" if len(bad) == 1 else "use"
    return Violation(noun, f"{listed('container', sorted(bad))} {verb} {listed(noun, sorted(hosts))}")


def privileged(metadata: JsonObject, spec: JsonObject) -> Violation | None:
    names = names_of(one for one in containers_of(spec) if security_of(one, "privileged"))
    if not names:
        return None
    return Violation("privileged", f"{listed('container', names)} must not set securityContext.privileged=true")


def proc_mount(metadata: JsonObject, spec: JsonObject) -> Violation | None:
    bad = [one for one in containers_of(spec) if security_of(one, "procMount") not in (None, "Default")]
    if not bad:
        return None
    types = sorted({security_of(one, "procMount") for one in bad})
    names = listed("container", names_of(bad))
    return Violation("procMount", f"{names} must not set securityContext.procMount to {quoted(types)}")


def proc_mount_without_host_users(metadata: JsonObject, spec: JsonObject) -> Violation | None:
    return None if has_user_namespace(spec) else proc_mount(metadata, spec)


def has_user_namespace(spec: JsonObject) -> bool:
    return spec.get("hostUsers") is False


def selinux_options(types: frozenset[str]) -> Check:
    """Return the check that allows these SELinux types."""

    def check(metadata: JsonObject, spec: JsonObject) -> Violation | None:
        def options(owner: JsonObject) -> JsonObject:
            found: JsonObject = security_of(owner, "seLinuxOptions") or {}
            return found

        def is_bad(owner: JsonObject) -> bool:
            found = options(owner)
            return found.get("type", "") not in types or bool(found.get("user")) or bool(found.get("role"))

        who = setters(spec, is_bad)
        if not who:
            return None
        everything = [options(owner) for owner in (spec, *containers_of(spec))]
        bad_types = sorted({found.get("type", "") for found in everything} - types)
        data = [listed("type", bad_types)] if bad_types else []
        data += [f"{key} may not be set" for key in ("user", "role") if any(found.get(key) for found in everything)]
        return Violation("seLinuxOptions", f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}")

    return check


def seccomp_annotations(metadata: JsonObject, spec: JsonObject) -> Violation | None:
    """Check the annotations that preceded the field, in versions before 1.19."""
    annotations = metadata.get("annotations", {})
    keys = [_SECCOMP_POD, *(_SECCOMP_CONTAINER + name for name in names_of(containers_of(spec)))]
    forbidden = sorted(
        {
            f'{key}="{annotations[key]}"'
            for key in keys
            if key in annotations
            and annotations[key] not in ("runtime/default", "docker/default")
            and not annotations[key].startswith("localhost/")
        }
    )
    if not forbidden:
        return None
    return Violation("seccompProfile", f"forbidden {plural('annotation', forbidden)} {', '.join(forbidden)}")


def seccomp_profile(metadata: JsonObject, spec: JsonObject) -> Violation | None:
    def value_of(owner: JsonObject) -> str | None:
        profile = security_of(owner, "seccompProfile")
        return None if profile is None else str(profile.get("type", ""))

    who = setters(spec, lambda owner: value_of(owner) not in PROFILES)
    if not who:
        return None
    values = sorted({value_of(one) or "" for one in (spec, *containers_of(spec)) if value_of(one) not in PROFILES})
    return Violation("seccompProfile", f"{who} must not set securityContext.seccompProfile.type to {quoted(values)}")


def sysctls(allowed: frozenset[str]) -> Check:
    """Return the check that allows these sysctls."""

    def check(metadata: JsonObject, spec: JsonObject) -> Violation | None:
        names = names_of(security_of(spec, "sysctls") or ())
        forbidden = [name for name in names if name not in allowed]
        return Violation("forbidden sysctls", ", ".join(forbidden)) if forbidden else None

    return check


def windows_host_process(metadata: JsonObject, spec: JsonObject) -> Violation | None:
    who = setters(spec, lambda owner: bool(security_of(owner, "windowsOptions", "hostProcess")))
    if not who:
        return None
    return Violation("hostProcess", f"{who} must not set securityContext.windowsOptions.hostProcess=true")


def _versions_of_sysctls() -> tuple[tuple[int, Check], ...]:
    versions, allowed = [(0, sysctls(_SYSCTLS))], _SYSCTLS
    for first, more in _MORE_SYSCTLS:
        allowed |= set(more)
        versions.append((first, sysctls(allowed)))
    return tuple(versions)


# The checks by their ids: pairs of the first minor version and the check from then on.
BASELINE_CHECKS: dict[str, tuple[tuple[int, Check], ...]] = {
    "appArmorProfile": ((0, app_armor_profile),),
    "capabilities_baseline": ((0, capabilities),),
    "hostNamespaces": ((0, host_namespaces),),
    "hostPathVolumes": ((0, host_path_volumes),),
    "hostPorts": ((0, host_ports),),
    "hostProbesAndHostLifecycle": ((34, host_probes_and_host_lifecycle),),
    "privileged": ((0, privileged),),
    "procMount_baseline": ((0, proc_mount), (35, proc_mount_without_host_users)),
    "seLinuxOptions": (
        (0, selinux_options(_SELINUX_TYPES)),
        (31, selinux_options(_SELINUX_TYPES | {"container_engine_t"})),
    ),
    "seccompProfile_baseline": ((0, seccomp_annotations), (19, seccomp_profile)),
    "sysctls": _versions_of_sysctls(),
    "windowsHostProcess": ((0, windows_host_process),),
}

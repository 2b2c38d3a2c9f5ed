"""The checks that the level `restricted` adds to those of `baseline`: the practices of hardened pods.

Pure: no I/O, no clock, no randomness. Source: Kubernetes pod-security-admission/policy/check_*.go.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject

from .baseline import PROFILES, has_user_namespace, proc_mount, seccomp_profile
from .violations import Check, Violation, containers_of, listed, names_of, quoted, security_of, setters

_VOLUMES = (
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
)


def allow_privilege_escalation(metadata: JsonObject, spec: JsonObject) -> Violation | None:
    names = names_of(one for one in containers_of(spec) if security_of(one, "allowPrivilegeEscalation") is not False)
    if not names:
        return None
    detail = f"{listed('container', names)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", detail)


def capabilities(metadata: JsonObject, spec: JsonObject) -> Violation | None:
    keeping, adding, added = [], [], set()
    for container in containers_of(spec):
        if "ALL" not in (security_of(container, "capabilities", "drop") or ()):
            keeping.append(container)
        extra = set(security_of(container, "capabilities", "add") or ()) - {"NET_BIND_SERVICE"}
        if extra:
            adding.append(container)
            added |= extra
    where, details = "securityContext.capabilities", []
    if keeping:
        details.append(f'{listed("container", names_of(keeping))} must set {where}.drop=["ALL"]')
    if adding:
        names = listed("container", names_of(adding))
        details.append(f"{names} must not include {quoted(sorted(added))} in {where}.add")
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def volume_types(metadata: JsonObject, spec: JsonObject) -> Violation | None:
    bad = [one for one in spec.get("volumes", ()) if not any(kind in one for kind in _VOLUMES)]
    if not bad:
        return None
    types = sorted({next((key for key in volume if key != "name"), "unknown") for volume in bad})
    verb = "uses" if len(bad) == 1 else "use"
    detail = f"{listed('volume', names_of(bad))} {verb} {listed('restricted volume type', types)}"
    return Violation("restricted volume types", detail)


def run_as_non_root(metadata: JsonObject, spec: JsonObject) -> Violation | None:
    reason = "runAsNonRoot != true"
    who = setters(spec, lambda owner: security_of(owner, "runAsNonRoot") is False)
    if who:
        return Violation(reason, f"{who} must not set securityContext.runAsNonRoot=false")
    if security_of(spec, "runAsNonRoot"):
        return None
    names = names_of(one for one in containers_of(spec) if security_of(one, "runAsNonRoot") is None)
    if not names:
        return None
    return Violation(reason, f"pod or {listed('container', names)} must set securityContext.runAsNonRoot=true")


def run_as_user(metadata: JsonObject, spec: JsonObject) -> Violation | None:
    who = setters(spec, lambda owner: security_of(owner, "runAsUser") == 0)
    return Violation("runAsUser=0", f"{who} must not set runAsUser=0") if who else None


def seccomp_profile_is_set(metadata: JsonObject, spec: JsonObject) -> Violation | None:
    bad = seccomp_profile(metadata, spec)
    if bad is not None:
        return bad
    if security_of(spec, "seccompProfile", "type") in PROFILES[1:]:
        return None
    names = names_of(one for one in containers_of(spec) if security_of(one, "seccompProfile") is None)
    if not names:
        return None
    allowed = 'securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", f"pod or {listed('container', names)} must set {allowed}")


def _except_on_windows(check: Check) -> Check:
    """Return a check that allows pods for Windows, which has no such setting."""

    def wrapped(metadata: JsonObject, spec: JsonObject) -> Violation | None:
        return None if spec.get("os", {}).get("name") == "windows" else check(metadata, spec)

    return wrapped


def _with_host_users(check: Check) -> Check:
    """Return a check that allows pods in a user namespace, where user 0 is none of the host's."""

    def wrapped(metadata: JsonObject, spec: JsonObject) -> Violation | None:
        return None if has_user_namespace(spec) else check(metadata, spec)

    return wrapped


# The checks by their ids: pairs of the first minor version and the check from then on.
RESTRICTED_CHECKS: dict[str, tuple[tuple[int, Check], ...]] = {
    "allowPrivilegeEscalation": (
        (8, allow_privilege_escalation),
        (25, _except_on_windows(allow_privilege_escalation)),
    ),
    "capabilities_restricted": ((22, capabilities), (25, _except_on_windows(capabilities))),
    "procMount_restricted": ((35, proc_mount),),
    "restrictedVolumes": ((0, volume_types),),
    "runAsNonRoot": ((0, run_as_non_root), (35, _with_host_users(run_as_non_root))),
    "runAsUser": ((23, run_as_user), (35, _with_host_users(run_as_user))),
    "seccompProfile_restricted": ((19, seccomp_profile_is_set), (25, _except_on_windows(seccomp_profile_is_set))),
}

# Checks of `baseline` that a stricter one replaces.
REPLACED = {
    "capabilities_restricted": "capabilities_baseline",
    "procMount_restricted": "procMount_baseline",
    "restrictedVolumes": "hostPathVolumes",
    "seccompProfile_restricted": "seccompProfile_baseline",
}

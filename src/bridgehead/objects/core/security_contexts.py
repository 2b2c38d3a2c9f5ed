"""Security contexts of pods and containers.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.objects.meta import Part


class Capabilities(Part, frozen=True, kw_only=True):
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SeccompProfile(Part, frozen=True, kw_only=True):
    type: str = ""
    localhost_profile: str = ""


class AppArmorProfile(Part, frozen=True, kw_only=True):
    type: str = ""
    localhost_profile: str = ""


class SELinuxOptions(Part, frozen=True, kw_only=True):
    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


class Sysctl(Part, frozen=True, kw_only=True):
    name: str
    value: str = ""


class SecurityContext(Part, frozen=True, kw_only=True):
    """Security context of a container. A field that is None takes the pod's value if the pod has that field."""

    privileged: bool = False
    allow_privilege_escalation: bool | None = None
    capabilities: Capabilities | None = None
    read_only_root_filesystem: bool = False
    proc_mount: str = "Default"
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    se_linux_options: SELinuxOptions | None = None


class PodSecurityContext(Part, frozen=True, kw_only=True):
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: tuple[int, ...] = ()
    supplemental_groups_policy: str = "Merge"
    fs_group: int | None = None
    fs_group_change_policy: str = "Always"
    sysctls: tuple[Sysctl, ...] = ()
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    se_linux_options: SELinuxOptions | None = None

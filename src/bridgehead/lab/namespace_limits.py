"""Reasons why a machine, or a container, does not let a lab make its namespaces, and what allows them.

Pure: no I/O, no clock, no randomness. Sources: unshare(2), user_namespaces(7); Debian's and Ubuntu's sysctls; Docker's
`--security-opt`.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

_SEE: Final = "docs/where-it-runs.md has a table"
_TEMPORARILY: Final = "as root, `sysctl -w {}` (a file in /etc/sysctl.d keeps it)"


class Step(StrEnum):
    """A step of the trial in `namespace_trial`, by what it makes."""

    USER_NAMESPACE = "a user namespace"
    ID_MAP = "the ids of a user namespace"
    NAMESPACES = "network, mount and PID namespaces"
    HOST_NAME = "a host name of its own"
    MOUNTS = "mounts"
    PROC = "a mount of /proc"
    SYSFS = "a mount of /sys"
    ROOT = "a new root directory (pivot_root)"


class Limit(NamedTuple):
    """`lack`: what is forbidden, and by what. `remedy`: what allows it."""

    lack: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Possible reasons why this process may make no namespaces. `sysctls`: values by name, of those that exist.

    `profile`: the process's AppArmor profile, "" without one. `hidden`: mount points below /proc and /sys that hide
    parts of them. `is_root`: the effective user is root. `can_mount`: it has CAP_SYS_ADMIN. `has_filter`: a seccomp
    filter is in force. `is_chrooted`: its root directory is not that of its mount namespace.
    """

    sysctls: dict[str, int]
    profile: str = ""
    hidden: Sequence[str] = ()
    is_root: bool = False
    can_mount: bool = False
    has_filter: bool = False
    is_chrooted: bool = False


def explain(step: Step, number: int, reason: str, facts: Facts) -> Limit:
    """Return why a step failed with this errno; `reason` is the text of the error."""
    candidates = (
        _explain_number(number, facts),
        _explain_sysctl(step, facts),
        _explain_masks(step, facts),
        _explain_profile(step, facts),
        _explain_filter(step, facts),
        _explain_chroot(step, facts),
        _explain_ids(step, facts),
    )
    return next((each for each in candidates if each), _explain_otherwise(step, reason))


def _explain_number(number: int, facts: Facts) -> Limit | None:
    if number != errno.ENOSPC:  # EPERM in Linux' documentation before 4.9, ENOSPC since
        return None
    exhausted = next((name for name, value in facts.sysctls.items() if name.startswith("user.max_") and not value), "")
    if exhausted:
        return Limit(
            f"the sysctl {exhausted} is 0, which forbids such namespaces to all users, also to root",
            f"{_TEMPORARILY.format(f'{exhausted}=10000')}; in a container, on the machine that it runs on",
        )
    return Limit(
        "too many namespaces exist, or they are nested too deep",
        "stop other labs and containers, or raise the sysctls user.max_*_namespaces as root",
    )


def _explain_sysctl(step: Step, facts: Facts) -> Limit | None:
    """Debian's switch, which root's CAP_SYS_ADMIN overrides."""
    if step is not Step.USER_NAMESPACE or facts.can_mount or facts.sysctls.get("kernel.unprivileged_userns_clone") != 0:
        return None
    return Limit(
        "the sysctl kernel.unprivileged_userns_clone is 0, which leaves user namespaces to root",
        f"run as root, or {_TEMPORARILY.format('kernel.unprivileged_userns_clone=1')}",
    )


def _explain_masks(step: Step, facts: Facts) -> Limit | None:
    if step not in (Step.PROC, Step.SYSFS):
        return None
    hidden = [path for path in facts.hidden if path.startswith("/proc" if step is Step.PROC else "/sys")]
    if not hidden:
        return None
    return Limit(
        f"parts of {'/proc' if step is Step.PROC else '/sys'} are hidden here ({_some(hidden)}), as in a container, so"
        " the kernel refuses a new mount of it in a user namespace",
        _start_container(facts),
    )


def _explain_profile(step: Step, facts: Facts) -> Limit | None:
    if facts.sysctls.get("kernel.apparmor_restrict_unprivileged_userns") and not facts.can_mount:
        name = facts.profile or "unconfined"
        return Limit(
            f"AppArmor takes all rights from user namespaces of ordinary users (profile: {name}), by the sysctl"
            " kernel.apparmor_restrict_unprivileged_userns, which Ubuntu sets",
            f"run as root, or {_TEMPORARILY.format('kernel.apparmor_restrict_unprivileged_userns=0')}",
        )
    if _is_confined(facts.profile) and step is not Step.ID_MAP:
        return Limit(
            f"the AppArmor profile {facts.profile} forbids {step}",
            _start_container(facts),
        )
    return None


def _explain_filter(step: Step, facts: Facts) -> Limit | None:
    if not facts.has_filter:
        return None
    return Limit(
        f"a seccomp filter forbids {step} to this process, as in a container",
        _start_container(facts),
    )


def _explain_chroot(step: Step, facts: Facts) -> Limit | None:
    if step is not Step.USER_NAMESPACE or not facts.is_chrooted:
        return None
    return Limit(
        "this process is in a chroot, where the kernel allows no user namespaces",
        "enter the directory in a mount namespace of its own, by pivot_root: `systemd-nspawn`, `bwrap` or a container",
    )


def _explain_ids(step: Step, facts: Facts) -> Limit | None:
    if step is not Step.ID_MAP or not facts.is_root:
        return None
    return Limit(
        "root may not map the ids of a user namespace here, for which it needs CAP_SETUID, CAP_SETGID and CAP_SETFCAP",
        "start the container without `--cap-drop` of these, which engines of containers give to root by default",
    )


def _start_container(facts: Facts) -> str:
    """Return the options of a container that has none of the limits that can be seen."""
    options = [
        option
        for option, is_needed in (
            ("seccomp=unconfined", facts.has_filter),
            ("apparmor=unconfined", _is_confined(facts.profile)),
            ("systempaths=unconfined", bool(facts.hidden) and not facts.can_mount),
        )
        if is_needed
    ]
    shown = " ".join(f"--security-opt {option}" for option in options)
    podman = " (Podman: `unmask=ALL` for `systempaths=unconfined`)" if "systempaths=unconfined" in options else ""
    return f"start the container with `{shown}`{podman} or `--privileged`; {_SEE}"


def _is_confined(profile: str) -> bool:
    return bool(profile) and not profile.startswith("unconfined")


def _explain_otherwise(step: Step, reason: str) -> Limit:
    return Limit(
        f"this kernel does not let you make {step} ({reason})",
        "run as root, or allow user namespaces (`sysctl user.max_user_namespaces`; a Linux security module such as"
        " SELinux may have the reason in the kernel's log)",
    )


def _some(paths: Sequence[str]) -> str:
    return ", ".join(paths[:2]) + (f" and {len(paths) - 2} more" if len(paths) > 2 else "")


def parse_hidden(mountinfo: str) -> list[str]:
    """Return the mount points below /proc and /sys that hide a part of them, from the text of /proc/self/mountinfo.

    File systems that have a directory there for them, such as /sys/fs/cgroup, hide nothing: these are empty otherwise.
    """
    found = []
    for line in mountinfo.splitlines():
        path = line.split()[4]
        if path.startswith(("/proc/", "/sys/")) and not path.startswith(_EMPTY):
            found.append(path)
    return found


# Directories that are empty in procfs and sysfs themselves, on which others are mounted.
_EMPTY: Final = (
    *("/proc/fs/nfsd", "/proc/sys/fs/binfmt_misc", "/sys/fs/", "/sys/kernel/", "/sys/firmware/efi/efivars"),
    "/sys/hypervisor",
)


def is_chrooted(mountinfo: str) -> bool:
    """Return whether the root directory of a process is no mount point, from the text of its /proc/PID/mountinfo."""
    return not any(line.split()[4] == "/" for line in mountinfo.splitlines())

"""Reasons why a machine or a container lets a lab make no namespaces."""

from __future__ import annotations

import errno

import pytest

from bridgehead.lab.namespace_limits import Facts, Step, explain, is_chrooted, parse_hidden

HIDDEN = ("/proc/bus", "/proc/keys", "/proc/sys", "/sys/firmware")
RESTRICTED = {"kernel.apparmor_restrict_unprivileged_userns": 1}


@pytest.mark.parametrize(
    ("step", "number", "facts", "lack", "remedy"),
    [
        (
            Step.USER_NAMESPACE,
            errno.ENOSPC,
            Facts(sysctls={"user.max_net_namespaces": 9, "user.max_user_namespaces": 0}, can_mount=True, is_root=True),
            "user.max_user_namespaces is 0",
            "sysctl -w user.max_user_namespaces=10000",
        ),
        (Step.NAMESPACES, errno.ENOSPC, Facts(sysctls={"user.max_net_namespaces": 9}), "too many", "stop other labs"),
        (
            Step.USER_NAMESPACE,
            errno.EPERM,
            Facts(sysctls={"kernel.unprivileged_userns_clone": 0}, has_filter=True),
            "kernel.unprivileged_userns_clone is 0",
            "run as root, or as root, `sysctl -w kernel.unprivileged_userns_clone=1`",
        ),
        # Ubuntu lets such a process make the namespace, and takes its rights there: what fails comes later.
        (Step.USER_NAMESPACE, errno.EACCES, Facts(sysctls=RESTRICTED), "(profile: unconfined)", "userns=0"),
        (Step.ID_MAP, errno.EPERM, Facts(sysctls=RESTRICTED, profile="unconfined"), "AppArmor takes", "userns=0"),
        (
            Step.MOUNTS,
            errno.EACCES,
            Facts(sysctls=RESTRICTED, profile="unconfined"),
            "which Ubuntu sets",
            "run as root",
        ),
        (
            Step.MOUNTS,
            errno.EACCES,
            Facts(sysctls={}, profile="docker-default (enforce)", is_root=True, hidden=HIDDEN),
            "the AppArmor profile docker-default (enforce) forbids mounts",
            "`--security-opt apparmor=unconfined --security-opt systempaths=unconfined`",
        ),
        (
            Step.USER_NAMESPACE,
            errno.EPERM,
            Facts(sysctls={"user.max_user_namespaces": 9}, has_filter=True, hidden=HIDDEN, is_root=True),
            "a seccomp filter forbids a user namespace to this process",
            "`--security-opt seccomp=unconfined --security-opt systempaths=unconfined` (Podman: `unmask=ALL` for",
        ),
        (
            Step.ROOT,
            errno.EPERM,
            Facts(sysctls={}, has_filter=True, hidden=HIDDEN, is_root=True, can_mount=True),
            "a seccomp filter forbids a new root directory (pivot_root)",
            "`--security-opt seccomp=unconfined` or `--privileged`",
        ),
        (
            Step.PROC,
            errno.EPERM,
            Facts(sysctls={}, hidden=HIDDEN, is_root=True),
            "parts of /proc are hidden here (/proc/bus, /proc/keys and 1 more)",
            "`--security-opt systempaths=unconfined` (Podman",
        ),
        (Step.SYSFS, errno.EPERM, Facts(sysctls={}, hidden=HIDDEN), "parts of /sys are hidden here (/sys/f", "start"),
        (Step.USER_NAMESPACE, errno.EPERM, Facts(sysctls={}, is_chrooted=True), "in a chroot", "pivot_root"),
        (Step.ID_MAP, errno.EPERM, Facts(sysctls={}, is_root=True), "CAP_SETFCAP", "without `--cap-drop`"),
        (
            Step.NAMESPACES,
            errno.EINVAL,
            Facts(sysctls={"user.max_user_namespaces": 9}),
            "does not let you make network, mount and PID namespaces (Invalid argument)",
            "run as root",
        ),
        (Step.PROC, errno.EPERM, Facts(sysctls={}), "does not let you make a mount of /proc (Oper", "run as root"),
    ],
)
def test_each_cause_has_its_line_and_what_allows_it(
    step: Step, number: int, facts: Facts, lack: str, remedy: str
) -> None:
    reason = {errno.EINVAL: "Invalid argument"}.get(number, "Operation not permitted")
    limit = explain(step, number, reason, facts)
    assert lack in limit.lack
    assert remedy in limit.remedy
    assert "\n" not in "".join(limit)


MOUNTS = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:20 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
24 23 0:20 /bus /proc/bus ro,nosuid,nodev,noexec,relatime - proc proc rw
25 23 0:31 / /proc/sys/fs/binfmt_misc rw - binfmt_misc none rw
26 22 0:21 / /sys ro - sysfs sysfs ro
27 26 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw
28 26 0:23 / /sys/firmware ro - tmpfs tmpfs ro
29 26 0:24 / /sys/kernel/debug rw - debugfs debugfs rw
"""


def test_mounts_on_empty_directories_hide_nothing() -> None:
    assert parse_hidden(MOUNTS) == ["/proc/bus", "/sys/firmware"]


def test_a_chroot_is_known_by_its_root_that_is_no_mount_point() -> None:
    assert not is_chrooted(MOUNTS)
    assert is_chrooted("23 22 0:20 / /proc rw - proc proc rw\n")

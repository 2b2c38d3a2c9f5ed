"""Privileges of a container's processes: user, groups, capabilities. Planned as a value, then applied by a process.

Source: capabilities(7); containerd's defaults (pkg/oci, pkg/cap) and its order of a Pod's `add` and `drop`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import Final

import msgspec

from bridgehead.kubelet.runtimes.runtime import RuntimeFailure, Security
from bridgehead.network import syscalls

from . import seccomp

# Capabilities in the order of their numbers (linux/capability.h: CAP_CHOWN is 0).
CAPABILITIES: Final = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
    "CHECKPOINT_RESTORE",
)  # fmt: skip
_ALL: Final = frozenset(CAPABILITIES)
DEFAULT_CAPABILITIES: Final = frozenset(
    {
        "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
        "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
    }
)  # fmt: skip


class Privileges(msgspec.Struct, frozen=True, kw_only=True):
    """The privileges of a process. `capabilities` are numbers, `filter` is a seccomp program (b"": none)."""

    capabilities: frozenset[int]
    groups: tuple[int, ...] = ()
    no_new_privileges: bool = False
    filter: bytes = b""


def plan_capabilities(security: Security, available: frozenset[str] = _ALL) -> frozenset[str]:
    """The capabilities of a container. "ALL" stands for `available`, which are those of the runtime itself.

    Raises `RuntimeFailure` for an unknown name.
    """
    if security.privileged:
        return available
    add, drop = map(_parse, (security.add_capabilities, security.drop_capabilities))
    kept = available if "ALL" in add else DEFAULT_CAPABILITIES
    if "ALL" in drop:
        kept = frozenset()
    return (kept | add - {"ALL"}) - drop


def _parse(names: Iterable[str]) -> frozenset[str]:
    parsed = frozenset(name.upper().removeprefix("CAP_") for name in names)
    for name in parsed:
        if name not in _ALL and name != "ALL":
            raise RuntimeFailure(f'unknown capability "CAP_{name}"')
    return parsed


def parse_available(status: str) -> frozenset[str]:
    """The capabilities that a process has, from the text of its /proc/PID/status."""
    [mask] = (int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapPrm:"))
    return frozenset(name for number, name in enumerate(CAPABILITIES) if mask >> number & 1)


def numbers_of(names: Iterable[str]) -> frozenset[int]:
    return frozenset(CAPABILITIES.index(name) for name in names)


def apply(privileges: Privileges, user: int, group: int) -> None:
    """Change this process, and the programs that it executes, to `user`, `group` and `privileges`. Raises OSError.

    The filter is installed last. Without no_new_privileges only a process with CAP_SYS_ADMIN may install one, so it is
    installed before the capabilities are dropped, and must allow the few calls that follow.
    """
    with contextlib.suppress(OSError):  # the kernel has no keys, or an outer filter forbids the call
        syscalls.join_session_keyring()
    syscalls.drop_bounding_capabilities(privileges.capabilities)
    groups = tuple(dict.fromkeys((group, *privileges.groups)))
    try:
        os.setgroups(groups)
    except PermissionError:
        # A user namespace of an ordinary user without subordinate ids: it permits no supplementary groups.
        if set(groups) - {group}:
            raise
    os.setresgid(group, group, group)
    if privileges.no_new_privileges:
        syscalls.set_no_new_privileges()
    elif privileges.filter:
        seccomp.install(privileges.filter)
    os.setresuid(user, user, user)
    if user == 0:
        syscalls.set_capabilities(privileges.capabilities)
    if privileges.no_new_privileges and privileges.filter:
        seccomp.install(privileges.filter)

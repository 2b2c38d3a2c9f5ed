"""What a container's processes may do: user, groups, capabilities. Planned as a value, then taken on by a process.

Source: capabilities(7); containerd's defaults (pkg/oci, pkg/cap) and its order of a Pod's `add` and `drop`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import Final

import msgspec

from bridgehead.kubelet.runtimes import seccomp
from bridgehead.kubelet.runtimes.runtime import RuntimeFailure, Security
from bridgehead.network import syscalls

# By their numbers (linux/capability.h).
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
    """`capabilities` are numbers, `filter` is a seccomp program (b"": none)."""

    capabilities: frozenset[int]
    groups: tuple[int, ...] = ()
    no_new_privileges: bool = False
    filter: bytes = b""


def plan_capabilities(security: Security, available: frozenset[str] = _ALL) -> frozenset[str]:
    """All is what is `available`: what the runtime itself has. Raises `RuntimeFailure` for a name that is none."""
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


def take_on(privileges: Privileges, user: int, group: int) -> None:
    """Become what `privileges` allow, for this process and what it executes. Raises OSError.

    The filter comes last, but without no_new_privileges only a process that has CAP_SYS_ADMIN may install one, so then
    it comes before the capabilities go. Every filter has to allow the few calls after it.
    """
    with contextlib.suppress(OSError):  # where keys are not in the kernel, or filtered already
        syscalls.join_session_keyring()
    syscalls.drop_bounding_capabilities(privileges.capabilities)
    groups = tuple(dict.fromkeys((group, *privileges.groups)))
    try:
        os.setgroups(groups)
    except PermissionError:
        # An ordinary user's namespace without subordinate ids: nobody in it has supplementary groups.
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

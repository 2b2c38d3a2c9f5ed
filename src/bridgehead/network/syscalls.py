"""The few system calls that Python 3.11 does not offer: namespaces, mounts and what goes with them.

Source: unshare(2), setns(2), mount(2), pivot_root(2), prctl(2). Every function raises OSError with the call's name.
"""

from __future__ import annotations

import ctypes
import os

# Without libc's header files the numbers are ours to know; they are the same on every architecture.
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_MOVE = 8192
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_SLAVE = 1 << 19
MNT_DETACH = 2

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
# pivot_root has no wrapper in glibc.
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41}

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, call: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Leave the namespaces that `flags` (CLONE_NEW*) name for new ones."""
    _check(_libc.unshare(flags), "unshare")


def setns(namespace: int | str, kind: int = 0) -> None:
    """Enter a namespace, given as a file descriptor or the path of its file."""
    if isinstance(namespace, int):
        _check(_libc.setns(namespace, kind), "setns")
        return
    fd = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(fd, kind), f"setns {namespace}")
    finally:
        os.close(fd)


def mount(source: str, target: str, filesystem: str = "", flags: int = 0, data: str = "") -> None:
    _check(
        _libc.mount(source.encode(), target.encode(), filesystem.encode() or None, flags, data.encode() or None),
        f"mount {source} on {target}",
    )


def umount(target: str, flags: int = 0) -> None:
    _check(_libc.umount2(target.encode(), flags), f"umount {target}")


def pivot_root(new_root: str, put_old: str) -> None:
    number = _SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(38, f"pivot_root: unknown on {os.uname().machine}")
    _check(_libc.syscall(number, new_root.encode(), put_old.encode()), f"pivot_root {new_root}")


def set_hostname(name: str) -> None:
    encoded = name.encode()
    _check(_libc.sethostname(encoded, len(encoded)), "sethostname")


def set_child_subreaper() -> None:
    """Become the parent of orphaned descendants."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(PR_SET_CHILD_SUBREAPER)")


def set_parent_death_signal(signal: int) -> None:
    """Receive `signal` when the parent thread ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def set_process_name(name: str) -> None:
    """What `ps` and `top` show; cut to 15 bytes by the kernel."""
    _check(_libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0), "prctl(PR_SET_NAME)")
